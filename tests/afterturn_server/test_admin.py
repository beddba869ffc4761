"""The admin API: shapes, paging, state changes and who may make them."""

import json
import os

import pytest

from afterturn_core.lifecycle import SignalDraft, acquire_lease, save_signal
from afterturn_core.models import Turn

from .conftest import eventually

HI = [{"role": "user", "content": "hi"}]


def judged(stack, count, verdict=1):
    """Turns with a signal that a round can use."""
    turn_ids = []
    while len(turn_ids) < count:
        turn_id = stack.chat(HI)["turn_id"]
        with stack.client() as client:
            client.post("/v1/feedback", json={"turn_id": turn_id, "kind": "thumb", "value": verdict})
        with stack.database.write() as session:
            stamp = session.get_one(Turn, turn_id).observed_at
            save_signal(session, turn_id, SignalDraft(verdict, "explicit"), evidence_of=stamp)
        if not stack.turn(turn_id)["held_out"]:
            turn_ids.append(turn_id)
    return turn_ids


def test_a_turn_has_every_field_of_the_contract(stack):
    (turn_id,) = judged(stack, 1)
    turn = stack.turn(turn_id)
    assert turn.keys() >= {
        "id", "agent", "session_id", "parent_id", "attempt_of", "kind", "kind_reason", "state",
        "excluded_reason", "protocol", "adapter", "model_hash", "created_at", "finish_reason", "client",
        "request", "reply", "prompt_token_ids", "token_ids", "logprobs", "next_state", "signal", "round_id",
    }  # fmt: skip
    assert turn["request"].keys() == {"messages", "tools", "sampling"}
    assert turn["signal"]["verdict"] == 1
    assert turn["signal"].keys() >= {"revision", "verdict", "source", "votes", "rationale", "hints"}
    assert turn["client"].startswith("python-httpx")
    assert stack.admin("GET", f"turns/{turn_id}").json() == turn


def test_listings_go_page_by_page_newest_first(stack):
    made = [stack.chat(HI)["turn_id"] for _ in range(5)]
    seen, cursor = [], None
    while True:
        page = stack.admin(
            "GET", "turns", params={"limit": 2, **({"after": cursor} if cursor else {})}
        ).json()
        seen += [turn["id"] for turn in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert stack.admin("GET", "turns", params={"limit": 0}).status_code == 400
    assert stack.admin("GET", "turns", params={"agent": "nobody"}).status_code == 404
    assert stack.admin("GET", "turns", params={"state": "judged"}).json()["data"] == []
    session = stack.turn(made[0])["session_id"]
    listed = stack.admin("GET", "turns", params={"session_id": session}).json()["data"]
    assert [turn["id"] for turn in listed] == [made[0]]


def test_a_verdict_and_an_exclusion_by_an_administrator(stack):
    first, second = stack.chat(HI)["turn_id"], stack.chat(HI)["turn_id"]
    turn = stack.admin("PATCH", f"turns/{first}", json={"verdict": -1}).json()
    assert (turn["state"], turn["signal"]["verdict"], turn["signal"]["source"]) == ("judged", -1, "explicit")
    assert stack.admin("PATCH", f"turns/{first}", json={"verdict": 1}).json()["signal"]["revision"] == 2
    excluded = stack.admin("PATCH", f"turns/{second}", json={"excluded": True}).json()
    assert (excluded["state"], excluded["excluded_reason"]) == ("excluded", "admin")
    for wrong in (
        {},
        {"verdict": 1, "excluded": True},
        {"verdict": 5},
        {"excluded": False},
        {"verdict": "x"},
    ):
        assert stack.admin("PATCH", f"turns/{first}", json=wrong).status_code == 400
    assert stack.admin("PATCH", "turns/nothing", json={"verdict": 1}).status_code == 404
    assert [s["revision"] for s in stack.admin("GET", "signals").json()["data"]] == [2, 1]


def test_agents_are_made_changed_and_listed(stack):
    assert stack.admin("POST", "agents", json={"name": "helper"}).status_code == 201
    assert stack.admin("POST", "agents", json={"name": "helper"}).status_code == 409
    for name in ("base", "Big", "-x", "", "a" * 64, "a b", "a/b", "a@v1"):
        assert stack.admin("POST", "agents", json={"name": name}).status_code == 400
    changed = stack.admin("PATCH", "agents/helper", json={"frozen": True, "min_signals": 3}).json()
    assert (changed["frozen"], changed["settings"]["min_signals"]) == (True, 3)
    assert stack.admin("PATCH", "agents/helper", json={"colour": "red"}).status_code == 400
    assert stack.admin("PATCH", "agents/helper", json={"pinned_version": 4}).status_code == 404
    assert stack.admin("PATCH", "agents/nobody", json={"frozen": True}).status_code == 404
    page = stack.admin("GET", "agents", params={"limit": 1}).json()
    assert [agent["name"] for agent in page["data"]] == ["default"]
    page = stack.admin("GET", "agents", params={"after": page["next"]}).json()
    assert [agent["name"] for agent in page["data"]] == ["helper"]


def test_keys_are_shown_once_and_revoked_at_once(stack):
    made = stack.admin("POST", "keys", json={"agent": "default", "scopes": ["inference"]})
    assert made.status_code == 201
    key, prefix = made.json()["key"], made.json()["prefix"]
    stack.chat(HI, key=key)
    listed = stack.admin("GET", "keys")
    assert key not in listed.text
    assert prefix in [row["prefix"] for row in listed.json()["data"]]
    assert stack.admin("DELETE", f"keys/{prefix}").json()["revoked_at"] is not None
    with stack.client(key) as client:
        assert client.get("/v1/models").status_code == 401
    assert stack.admin("DELETE", "keys/at-nothing").status_code == 404
    last = [row for row in listed.json()["data"] if row["scopes"] == ["admin"]]
    assert stack.admin("DELETE", f"keys/{last[0]['prefix']}").status_code == 409
    for wrong in ({"agent": "nobody"}, {"agent": "default", "scopes": ["admin"]}, {"scopes": ["inference"]}):
        assert stack.admin("POST", "keys", json=wrong).status_code in (400, 404)


def test_a_round_is_claimed_on_demand_and_cancelled(stack):
    assert stack.admin("POST", "rounds", json={"agent": "default"}).status_code == 409
    turn_ids = judged(stack, 3)
    started = stack.admin("POST", "rounds", json={"agent": "default"})
    assert started.status_code == 202
    row = started.json()
    assert sorted(row["turn_ids"]) == sorted(turn_ids)
    assert row["state"] == "claimed"
    assert eventually(lambda: stack.wake.trained) == [row["id"]]
    assert stack.admin("POST", "rounds", json={"agent": "default"}).status_code == 409
    assert stack.admin("GET", f"rounds/{row['id']}").json() == row
    with stack.database.write() as session:
        acquire_lease(session, row["id"], "me", 60)
    asked = stack.admin("POST", f"rounds/{row['id']}/cancel")
    assert (asked.status_code, asked.json()["cancel_requested"]) == (202, True)
    assert stack.admin("GET", "rounds/nothing").status_code == 404
    assert stack.admin("GET", "rounds", params={"state": "training"}).json()["data"][0]["id"] == row["id"]


def test_stats_count_what_there_is(stack):
    judged(stack, 2)
    judged(stack, 1, verdict=-1)
    stack.chat(HI, headers={"X-Turn-Type": "side"})
    stats = stack.admin("GET", "stats").json()
    (agent,) = stats["agents"]
    assert agent["agent"] == "default"
    assert agent["turns"]["excluded"] == 1
    assert agent["waiting_signals"] == 3
    assert agent["signals"]["-1"] >= 1
    assert agent["signals"]["+1"] >= 2
    assert stats["engine"]["ok"] is True
    assert stats["engine"]["max_model_len"] == 8192


def test_an_export_has_every_turn_oldest_first(stack):
    made = [stack.chat(HI)["turn_id"] for _ in range(3)]
    export = stack.admin("GET", "export", params={"agent": "default"})
    turns = [json.loads(line) for line in export.text.splitlines()]
    assert [turn["id"] for turn in turns] == made
    assert turns[0] == stack.turn(made[0])
    assert stack.admin("GET", "export", params={"agent": "nobody"}).status_code == 404


def test_the_description_lists_every_route(stack):
    paths = stack.admin("GET", "openapi.json").json()["paths"]
    assert {
        "/agents",
        "/keys",
        "/turns",
        "/signals",
        "/rounds",
        "/adapters",
        "/stats",
        "/export",
    } <= paths.keys()


def test_b39_other_sites_change_nothing(stack):
    body = json.dumps({"name": "forged"})
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Origin": "https://evil.example"},
        {"Content-Type": "application/json", "Host": "evil.example"},
    ):
        assert stack.admin("POST", "agents", content=body, headers=headers).status_code in (403, 415)
    assert [agent["name"] for agent in stack.admin("GET", "agents").json()["data"]] == ["default"]
    for path in ("rounds", "agents/default/rollback", "adapters/x/promote", "rounds/x/cancel"):
        assert stack.admin("GET", path).status_code in (200, 404, 405)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_b39_a_rebound_name_gets_nothing(stack, host):
    with stack.client() as client:
        assert client.get("/v1/models", headers={"Host": host}).status_code == 403
        for known in ("localhost:30000", "127.0.0.1", "[::1]:30000"):
            assert client.get("/v1/models", headers={"Host": known}).status_code == 200


def test_hostile_text_comes_back_as_json(stack):
    hostile = "</script><script>alert(1)</script>\u2028"
    turn_id = stack.chat([{"role": "user", "content": hostile}])["turn_id"]
    response = stack.admin("GET", f"turns/{turn_id}")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["request"]["messages"][0]["content"] == hostile


def test_requests_a_minute_and_tokens_a_day_are_limited(stack):
    slow = stack.add_key("default", requests_per_minute=2)
    with stack.client(slow) as client:
        answers = [client.get("/v1/models") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    # A second counts until all of it is a minute ago.
    assert 1 <= int(answers[2].headers["retry-after"]) <= 61
    assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
    spent = stack.add_key("default", tokens_per_day=5)
    stack.chat(HI, key=spent)
    with stack.client(spent) as client:
        refused = client.post("/v1/chat/completions", json={"model": "default", "messages": HI})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert client.get("/v1/sessions").status_code == 200


def test_the_keys_file_is_for_its_owner_alone(stack):
    assert os.stat(stack.settings.keys_file).st_mode & 0o777 == 0o600
