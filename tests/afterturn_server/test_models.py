"""Which weights answer: names, versions, replicas, and adapters that an engine has forgotten."""

import pytest
from sqlmodel import select
from tests.served import served

from afterturn_core.models import Adapter, Agent, EngineModel
from afterturn_engine.scripted import create_app as create_engine

HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def adapter(tmp_path):
    """Makes a published adapter of an agent; returns its name."""

    def make(stack, version, *, agent="default", live=True, model_hash=None, **fields):
        folder = tmp_path / f"{agent}-{version}"
        folder.mkdir()
        (folder / "adapter_config.json").write_text("{}")
        known = model_hash or stack.turn(stack.chat(HI, model="base")["turn_id"])["model_hash"]
        with stack.database.write() as session:
            owner = session.exec(select(Agent).where(Agent.name == agent)).one()
            row = Adapter(
                **{
                    "id": f"adapter_{agent}_{version}",
                    "agent_id": owner.id,
                    "version": version,
                    "name": f"{agent}@v{version}",
                    "parent_id": owner.live_adapter_id,
                    "state": "published",
                    "model_hash": known,
                    "path": str(folder),
                    **fields,
                }
            )
            session.add(row)
            session.flush()
            if live:
                owner.live_adapter_id = row.id
                session.add(owner)
            return row.name

    return make


def ask(stack, model, key=None):
    with stack.client(key) as client:
        response = client.post("/v1/chat/completions", json={"model": model, "messages": HI})
    return response.status_code, response.headers.get("x-adapter"), response.json().get("model")


def test_an_agents_name_means_its_live_adapter_loaded_on_first_use(stack, adapter):
    assert ask(stack, "default") == (200, "base", "default")
    adapter(stack, 1)
    assert ask(stack, "default") == (200, "default@v1", "default")
    assert stack.engine.loads == ["default@v1"]
    adapter(stack, 2)
    assert ask(stack, "default") == (200, "default@v2", "default")
    assert ask(stack, "default@v1") == (200, "default@v1", "default@v1")
    assert ask(stack, "base") == (200, "base", "base")
    assert stack.engine.loads == ["default@v1", "default@v2"]
    turn = stack.admin("GET", "turns").json()["data"][2]
    assert turn["adapter"] == "default@v2"


def test_an_engine_that_restarted_gets_the_adapter_again_once(stack, adapter):
    adapter(stack, 1)
    ask(stack, "default")
    stack.engine.forget_adapters()
    with stack.client() as client:
        body = {"model": "default", "messages": HI, "stream": True}
        assert client.post("/v1/chat/completions", json=body).headers["x-adapter"] == "default@v1"
    assert stack.engine.loads == ["default@v1", "default@v1"]


def test_tokens_are_counted_by_an_engine_that_does_not_have_the_adapter(stack, adapter):
    adapter(stack, 1)
    with stack.client() as client:
        counted = client.post("/v1/messages/count_tokens", json={"model": "default", "messages": HI})
    assert counted.status_code == 200, counted.text
    assert stack.engine.loads == ["default@v1"]


def test_an_adapter_that_cannot_be_loaded_is_a_502(stack, adapter, tmp_path):
    adapter(stack, 1, path=str(tmp_path / "gone"))
    with stack.client() as client:
        response = client.post("/v1/chat/completions", json={"model": "default", "messages": HI})
    assert response.status_code == 502
    assert response.json()["error"]["code"] == "adapter_unavailable"
    assert str(tmp_path) not in response.text


def test_what_was_trained_on_another_base_is_not_served(stack, adapter):
    adapter(stack, 1, model_hash="of another base")
    assert ask(stack, "default") == (200, "base", "default")
    assert ask(stack, "default@v1")[0] == 404


@pytest.mark.parametrize("fields", [{"state": "candidate"}, {"state": "rejected"}, {"marks": ["tainted"]}])
def test_unfinished_rejected_and_tainted_versions_are_not_there(stack, adapter, fields):
    adapter(stack, 1, live=False, **fields)
    assert ask(stack, "default@v1")[0] == 404


def test_a_pinned_version_answers_whatever_is_live(stack, adapter):
    adapter(stack, 1)
    adapter(stack, 2)
    assert stack.admin("PATCH", "agents/default", json={"pinned_version": 1}).json()["pinned_version"] == 1
    assert ask(stack, "default")[1] == "default@v1"
    stack.admin("PATCH", "agents/default", json={"pinned_version": None})
    assert ask(stack, "default")[1] == "default@v2"


def test_a_rollback_and_a_promotion_are_seen_by_the_next_request(stack, adapter):
    adapter(stack, 1)
    adapter(stack, 2)
    assert stack.admin("POST", "agents/default/rollback", json={}).json()["live_adapter"] == "default@v1"
    assert ask(stack, "default")[1] == "default@v1"
    assert stack.admin("POST", "adapters/default@v2/promote").json()["live"] is True
    assert ask(stack, "default")[1] == "default@v2"
    assert stack.admin("POST", "agents/default/rollback", json={"to": 0}).json()["live_adapter"] is None
    assert ask(stack, "default")[1] == "base"
    assert stack.admin("POST", "agents/default/rollback", json={"to": 9}).status_code == 404
    listed = stack.admin("GET", "adapters").json()["data"]
    assert [(a["name"], a["parent"], a["live"]) for a in listed] == [
        ("default@v2", 1, False),
        ("default@v1", None, False),
    ]


def test_names_of_other_agents_do_not_exist_but_for_an_admin(stack, adapter):
    other = stack.add_key("other")
    adapter(stack, 1, agent="other")
    assert ask(stack, "other", other)[1] == "other@v1"
    for model in ("other", "other@v1"):
        assert ask(stack, model)[0] == 404
        assert ask(stack, model, stack.admin_key)[:2] == (200, "other@v1")
    assert stack.admin("GET", "turns", params={"agent": "other"}).json()["data"][0]["agent"] == "other"


def test_an_agent_may_accept_any_model_name(stack):
    assert ask(stack, "gpt-4o")[0] == 404
    stack.admin("PATCH", "agents/default", json={"accept_any_model": True})
    assert ask(stack, "gpt-4o") == (200, "base", "gpt-4o")


def test_the_listing_shows_what_may_be_asked_for(stack, adapter):
    stack.add_key("other")
    adapter(stack, 1)
    client = stack.openai()
    assert [model.id for model in client.models.list()] == ["default", "default@v1", "base"]
    assert client.models.retrieve("default@v1").id == "default@v1"
    assert [m.id for m in stack.openai(stack.admin_key).models.list()] == [
        "default",
        "default@v1",
        "other",
        "base",
    ]


def test_replicas_each_get_the_adapter_and_a_session_stays_on_one(start, adapter):
    engines = [create_engine(), create_engine()]
    with served(engines[0]) as one, served(engines[1]) as two, start(engine_url=f"{one},{two}") as stack:
        adapter(stack, 1)
        for number in range(8):
            for _ in range(2):
                stack.chat(HI, headers={"X-Session-Id": f"s{number}"})
        counts = [len(engine.state.engine.received) for engine in engines]
        assert sum(counts) >= 17
        assert min(counts) >= 2
        used = [engine.state.engine for engine in engines]
        assert [engine.loads for engine in used] == [["default@v1"], ["default@v1"]]


def test_the_base_model_is_noted_as_it_was_seen(stack):
    turn = stack.turn(stack.chat(HI)["turn_id"])
    with stack.database.read() as session:
        (seen,) = session.exec(select(EngineModel)).all()
    assert (seen.model_hash, seen.name, seen.max_model_len) == (turn["model_hash"], "base", 8192)


def test_a_replica_that_is_away_is_passed_over(start):
    engine = create_engine()
    with served(engine) as url, start(engine_url=f"http://127.0.0.1:1,{url}") as stack:
        for number in range(4):
            stack.chat(HI, headers={"X-Session-Id": f"s{number}"})
        assert len(engine.state.engine.received) == 4


def test_what_the_engine_refuses_does_not_become_live(stack, adapter, tmp_path):
    """B01: a version whose files are broken or gone leaves the one before serving."""
    adapter(stack, 1)
    adapter(stack, 2, live=False, path=str(tmp_path / "gone"))
    refused = stack.admin("POST", "adapters/default@v2/promote")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert stack.admin("POST", "agents/default/rollback", json={"to": 2}).status_code == 409
    assert ask(stack, "default")[:2] == (200, "default@v1")


def test_an_admin_key_never_links_one_agents_turns_to_anothers(stack):
    stack.add_key("other")
    first = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
    with stack.client(stack.admin_key, **{"X-Session-Id": "s1"}) as client:
        reply = client.post("/v1/chat/completions", json=first).json()
        history = [*first["messages"], reply["choices"][0]["message"], {"role": "user", "content": "worse"}]
        refused = client.post("/v1/chat/completions", json={"model": "other", "messages": history})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "session_id")
    with stack.client(stack.admin_key) as client:
        other = client.post("/v1/chat/completions", json={"model": "other", "messages": history})
    assert stack.turn(other.headers["x-turn-id"])["parent_id"] is None
