"""What is erased is gone, with what was concluded from it, and what learned from it is never live again."""

import asyncio
import zlib

import pytest
from sqlmodel import col, select
from tests.databases import KINDS

from afterturn_core.lifecycle import (
    RoundPlan,
    SignalDraft,
    acquire_lease,
    burn_version,
    claim_round,
    publish,
    save_signal,
)
from afterturn_core.models import Adapter, Agent, Content, HistoryNode, OriginalRequest, Round, Turn
from afterturn_engine.scripted import Reply, Script
from afterturn_server.erasing import erase


@pytest.fixture(params=KINDS)
def database_kind(request):
    return request.param


@pytest.fixture
def install(start):
    with start(Script(adapters_on_disk=False)) as stack:
        yield stack


def talk(stack, *texts, **body):
    """A conversation; returns the ids of its turns."""
    messages, turn_ids = [], []
    for text in texts:
        messages.append({"role": "user", "content": text})
        reply = stack.chat(messages, **body)
        messages.append(reply["choices"][0]["message"])
        turn_ids.append(reply["turn_id"])
    return turn_ids


def trained(stack, turn_id):
    """A version that learned from this turn, live."""
    with stack.database.write() as session:
        turn = session.get_one(Turn, turn_id)
        turn.state, turn.held_out = "judged", False
        session.add(turn)
        agent = session.exec(select(Agent).where(Agent.id == turn.agent_id)).one()
        others = select(Turn).where(col(Turn.id) != turn_id, Turn.state == "judged")
        for other in session.exec(others).all():
            other.state = "abstained"
            session.add(other)
        session.flush()
        row = claim_round(session, agent, RoundPlan(objective="hybrid", max_turns=8))
        lease = acquire_lease(session, row.id, "me", 60)
        adapter = burn_version(session, lease, turn.model_hash)
        publish(session, lease, adapter.id, path=f"{adapter.name}", sha256="0", gate={}, metrics={})
        return adapter.name


def complain(stack, turn_id, text="no"):
    """Feedback and a signal of a turn."""
    with stack.client() as client:
        assert client.post(
            "/v1/feedback", json={"turn_id": turn_id, "kind": "correction", "text": text}
        ).is_success
    with stack.database.write() as session:
        stamp = session.get_one(Turn, turn_id).observed_at
        draft = SignalDraft(-1, "explicit", rationale=text, hints=((text, "user"),))
        save_signal(session, turn_id, draft, evidence_of=stamp)


def everything(stack):
    """All text that the database still has of conversations."""
    with stack.database.read() as session:
        return "\n".join(zlib.decompress(body).decode() for body in session.exec(select(Content.body)).all())


def state_of(stack, turn_id):
    turn = stack.turn(turn_id)
    return turn["state"], turn["signal"], [piece["text"] for piece in turn["next_state"]]


def test_a_turn_goes_with_all_that_goes_on_from_it(install):
    first, second, third = talk(install, "my pin is 1234", "really secret-two", "and three")
    (other,) = talk(install, "my pin is 1234 too")
    complain(install, first, "quoting secret-two")
    complain(install, second)
    with install.client() as client:
        receipt = client.delete(f"/v1/turns/{second}").json()
        assert [client.get(f"/v1/turns/{turn_id}").status_code for turn_id in (first, second, third)] == [
            200,
            404,
            404,
        ]
        assert client.delete(f"/v1/turns/{second}").status_code == 404
    assert (receipt["turns"], receipt["sessions"], receipt["feedback"]) == (2, 0, 1)
    assert receipt["tainted_adapters"] == []
    # What was concluded from the erased reaction is concluded anew, from what was said besides.
    state, signal, texts = state_of(install, first)
    assert (state, signal, texts) == ("observed", None, ["quoting secret-two"])
    text = everything(install)
    assert "secret-two" not in text
    assert "my pin is 1234" in text
    assert install.turn(other)["state"] == "open"


@pytest.mark.parametrize("by", ["own", "admin"])
def test_a_session_goes_whole_and_nothing_of_it_is_left(install, by):
    talk(install, "stays here", session_id="kept")
    talk(install, "one secret", "two secret", session_id="gone")
    with install.client() as client:
        message = {
            "model": "default",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "secret three"}],
        }
        assert client.post("/v1/messages", json=message, headers={"x-session-id": "gone"}).is_success
        if by == "own":
            receipt = client.delete("/v1/sessions/gone").json()
        else:
            receipt = install.admin("POST", "erase", json={"session_id": "gone"}).json()
        assert client.delete("/v1/sessions/gone").status_code == 404
        names = [row["external_id"] for row in client.get("/v1/sessions").json()["data"]]
    assert names == ["kept"]
    assert (receipt["turns"], receipt["sessions"]) == (3, 1)
    assert "secret" not in everything(install)
    with install.database.read() as session:
        assert session.exec(select(OriginalRequest)).all() == []
        used = {turn.history_digest for turn in session.exec(select(Turn)).all()}
        heads = {turn.prompt_head for turn in session.exec(select(Turn)).all()}
        left = {node.digest for node in session.exec(select(HistoryNode)).all()}
    assert left <= used | heads | {None}


def test_adapters_that_learned_from_it_are_tainted_and_the_last_clean_one_serves(install):
    (first,), (second,), (third,) = (talk(install, text) for text in ("one", "two", "three"))
    for turn_id in (first, second, third):
        complain(install, turn_id)
    names = [trained(install, turn_id) for turn_id in (first, second, third)]
    assert names == ["default@v1", "default@v2", "default@v3"]
    receipt = install.admin("POST", "erase", json={"turn_id": second}).json()
    assert receipt["tainted_adapters"] == ["default@v2", "default@v3"]
    assert receipt["live"] == {"default": "default@v1"}
    rows = {row["name"]: row for row in install.admin("GET", "adapters").json()["data"]}
    assert [rows[name]["marks"] for name in names] == [[], ["tainted"], ["tainted"]]
    assert install.admin("POST", "adapters/default@v3/promote").status_code == 409
    with install.client() as client:
        answer = client.post(
            "/v1/chat/completions",
            json={"model": "default", "messages": [{"role": "user", "content": "hi"}]},
        )
        assert answer.headers["x-adapter"] == "default@v1"
        refused = client.post(
            "/v1/chat/completions",
            json={"model": "default@v3", "messages": [{"role": "user", "content": "hi"}]},
        )
        assert refused.status_code == 404
    receipt = install.admin("POST", "erase", json={"turn_id": first}).json()
    assert receipt["live"] == {"default": "base"}


def test_a_round_that_learns_from_it_stops_and_never_goes_live(install):
    (turn_id,) = talk(install, "one")
    complain(install, turn_id)
    with install.database.write() as session:
        turn = session.get_one(Turn, turn_id)
        turn.held_out = False
        session.add(turn)
        session.flush()
        row = claim_round(
            session, session.get_one(Agent, turn.agent_id), RoundPlan(objective="hybrid", max_turns=8)
        )
        lease = acquire_lease(session, row.id, "me", 60)
        adapter_id, round_id = burn_version(session, lease, turn.model_hash).id, row.id
    receipt = install.admin("POST", "erase", json={"agent": "default"}).json()
    assert receipt["turns"] == 1
    with install.database.read() as session:
        assert session.get_one(Round, round_id).cancel_requested
        assert session.get_one(Adapter, adapter_id).marks == ["tainted"]
        assert session.exec(select(Turn)).all() == []


def test_what_a_client_said_of_one_user_goes(install):
    """Each protocol has its own name for it."""
    hi = [{"role": "user", "content": "hi"}]
    with install.client() as client:
        for path, body in (
            ("chat/completions", {"messages": hi, "user": "ann"}),
            ("completions", {"prompt": "hi", "user": "ann"}),
            ("responses", {"input": "hi", "safety_identifier": "ann"}),
            ("messages", {"messages": hi, "max_tokens": 5, "metadata": {"user_id": "ann"}}),
            ("chat/completions", {"messages": hi, "user": "bob"}),
        ):
            assert client.post(f"/v1/{path}", json={"model": "default", **body}).is_success
    assert install.admin("POST", "erase", json={"client_user": "ann"}).json()["turns"] == 4
    assert install.admin("POST", "erase", json={"client_user": "ann"}).status_code == 404
    assert len(install.admin("GET", "turns").json()["data"]) == 1


def test_only_what_is_ones_own_can_be_erased(install):
    (turn_id,) = talk(install, "one", session_id="mine")
    with install.client(install.add_key("other")) as client:
        assert client.delete(f"/v1/turns/{turn_id}").status_code == 404
        assert client.delete("/v1/sessions/mine").status_code == 404
    with install.client(install.add_key("default", ("inference",))) as client:
        assert client.delete(f"/v1/turns/{turn_id}").status_code == 403
    for body in ({}, {"agent": "default", "turn_id": turn_id}, {"agent": ""}, {"nothing": "x"}):
        assert install.admin("POST", "erase", json=body).status_code == 400
    assert install.admin("POST", "erase", json={"agent": "nobody"}).status_code == 404
    assert install.turn(turn_id)["state"] == "open"


def test_the_other_choices_of_a_request_go_with_the_first(install):
    """B35: their ids were told to nobody."""
    first = install.chat([{"role": "user", "content": "hi"}], n=3)
    with install.client() as client:
        assert client.delete(f"/v1/turns/{first['turn_id']}").json()["turns"] == 3
    assert install.admin("GET", "turns").json()["data"] == []


@pytest.mark.parametrize("again", [False, True])
def test_a_request_is_answered_although_what_it_refers_to_is_erased_meanwhile(start, again):
    """Whichever is first, nothing that goes on from the erased turn is kept; another attempt is."""
    replies = (Reply(when="more", pieces=("a",) * 20, piece_ms=50),)
    with start(Script(replies=replies)) as stack, stack.client() as client:
        messages = [{"role": "user", "content": "more of it"}]
        first = stack.chat(messages)
        if not again:
            messages += [first["choices"][0]["message"], {"role": "user", "content": "and more"}]
        body = {"model": "default", "messages": messages, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert stack.admin("POST", "erase", json={"turn_id": first["turn_id"]}).status_code == 200
            assert [line for line in lines if line][-1] == "data: [DONE]"
        kept = [turn["id"] for turn in stack.admin("GET", "turns").json()["data"]]
    assert kept == ([answer.headers["x-turn-id"]] if again else [])


def test_what_goes_on_from_a_turn_while_it_is_erased_goes_too(install):
    messages = [{"role": "user", "content": "hi"}]
    first = install.chat(messages)
    messages += [first["choices"][0]["message"], {"role": "user", "content": "more"}]

    def sessions(_session):  # looked for when the turns have been found, and none of them is erased yet
        install.chat(messages)
        return ()

    gateway = install.app.state.gateway
    erasing = erase(gateway, lambda _session: [first["turn_id"]], sessions)
    receipt = asyncio.run_coroutine_threadsafe(erasing, gateway.loop).result(60)
    assert receipt.turns == 2
    assert install.admin("GET", "turns").json()["data"] == []
