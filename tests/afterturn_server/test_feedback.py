"""Explicit events: checked, stored once, given to the right turns, undone."""

import pytest
from tests.databases import KINDS


@pytest.fixture(params=KINDS)
def database_kind(request):
    """These run on every database that this machine has."""
    return request.param


HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def post(stack):
    """Posts an event; returns status and body."""

    def send(key=None, **event):
        with stack.client(key) as client:
            response = client.post("/v1/feedback", json=event)
        return response.status_code, response.json()

    return send


def following(stack, turn_id):
    return [(p["role"], p["kind"], p["value"], p["text"]) for p in stack.turn(turn_id)["next_state"]]


@pytest.mark.parametrize(
    ("event", "piece"),
    [
        ({"kind": "thumb", "value": 1}, ("feedback", "thumb", 1.0, "")),
        ({"kind": "thumb", "value": -1, "text": "too long"}, ("feedback", "thumb", -1.0, "too long")),
        ({"kind": "score", "value": 0.8}, ("feedback", "score", 0.8, "")),
        ({"kind": "correction", "text": "look first"}, ("feedback", "correction", None, "look first")),
        ({"kind": "preferred", "text": "42"}, ("feedback", "preferred", None, "42")),
        ({"kind": "comment", "text": "hm"}, ("feedback", "comment", None, "hm")),
        ({"kind": "outcome", "value": 0}, ("outcome", "outcome", 0.0, "")),
    ],
)
def test_each_kind_counts_at_once_and_wakes_the_judge(stack, post, event, piece):
    turn_id = stack.chat(HI)["turn_id"]
    status, body = post(turn_id=turn_id, occurred_at="2026-01-02T03:04:05Z", source="me", **event)
    assert status == 201
    assert body["turn_id"] == turn_id
    assert body["occurred_at"] == "2026-01-02T03:04:05Z"
    assert following(stack, turn_id) == [piece]
    assert stack.turn(turn_id)["state"] == "observed"
    assert stack.wake.heard(1) == [turn_id]
    with stack.client() as client:
        assert client.get(f"/v1/feedback/{body['id']}").json() == body


@pytest.mark.parametrize(
    ("event", "param"),
    [
        ({"kind": "thumb"}, "value"),
        ({"kind": "thumb", "value": 0}, "value"),
        ({"kind": "thumb", "value": "up"}, "value"),
        ({"kind": "score", "value": 1.1}, "value"),
        ({"kind": "outcome", "value": -0.1}, "value"),
        ({"kind": "correction"}, "text"),
        ({"kind": "correction", "text": " "}, "text"),
        ({"kind": "comment", "text": "x", "value": 1}, "value"),
        ({"kind": "star", "value": 1}, "kind"),
        ({"value": 1}, "kind"),
        ({"kind": "thumb", "value": 1, "session_id": "s"}, "session_id"),
        ({"kind": "thumb", "value": 1, "turn_id": None}, "turn_id"),
        ({"kind": "thumb", "value": 1, "occurred_at": "yesterday"}, "occurred_at"),
        ({"kind": "thumb", "value": 1, "occurred_at": "2026-01-02T03:04:05"}, "occurred_at"),
        ({"kind": "thumb", "value": 1, "rating": 5}, "rating"),
    ],
)
def test_malformed_events_name_the_field(post, event, param):
    status, body = post(**{"turn_id": "turn_x", **event})
    assert status == 400
    assert body["error"]["param"] == param


def test_an_event_sent_twice_is_stored_once(stack, post):
    turn_id = stack.chat(HI)["turn_id"]
    event = {"turn_id": turn_id, "kind": "thumb", "value": 1, "idempotency_key": "k"}
    first, again = post(**event), post(**event)
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1]
    assert len(following(stack, turn_id)) == 1
    assert post(**{**event, "value": -1})[0] == 409
    other = stack.add_key("other")
    theirs = stack.chat(HI, key=other, model="other")["turn_id"]
    assert post(key=other, **{**event, "turn_id": theirs})[0] == 201


def test_targets_may_be_a_response_or_a_session(stack, post):
    reply = stack.chat(HI, headers={"X-Session-Id": "mine"})
    last = stack.chat([{"role": "user", "content": "again"}], headers={"X-Session-Id": "mine"})
    stack.chat(
        [{"role": "user", "content": "aside"}], headers={"X-Session-Id": "mine", "X-Turn-Type": "side"}
    )
    assert post(response_id=reply["id"], kind="thumb", value=1)[1]["turn_id"] == reply["turn_id"]
    assert post(session_id="mine", kind="thumb", value=1)[1]["turn_id"] == last["turn_id"]
    assert post(session_id=last["session_id"], kind="thumb", value=1)[1]["turn_id"] == last["turn_id"]


def test_unknown_and_foreign_targets_are_not_found(stack, post):
    reply = stack.chat(HI, headers={"X-Session-Id": "mine"})
    other = stack.add_key("other")
    for key in (None, other):
        for name, value in (("turn_id", "turn_x"), ("response_id", "x"), ("session_id", "x")):
            assert post(key=key, **{name: value}, kind="thumb", value=1)[0] == 404
    for name, value in (("turn_id", reply["turn_id"]), ("response_id", reply["id"]), ("session_id", "mine")):
        assert post(key=other, **{name: value}, kind="thumb", value=1)[0] == 404
        assert post(key=stack.admin_key, **{name: value}, kind="thumb", value=1)[0] == 201


def test_a_sessions_outcome_fades_backwards(stack, post):
    headers = {"X-Session-Id": "mine"}
    turns = [stack.chat([{"role": "user", "content": str(n)}], headers=headers)["turn_id"] for n in range(6)]
    assert post(session_id="mine", kind="outcome", value=1)[0] == 201
    heard = [[(p["value"], p["weight"]) for p in stack.turn(turn_id)["next_state"]] for turn_id in turns]
    assert heard == [[], [], [(1.0, 0.125)], [(1.0, 0.25)], [(1.0, 0.5)], [(1.0, 1.0)]]
    assert sorted(stack.wake.heard(4)) == sorted(turns[2:])


def test_an_event_can_be_undone(stack, post):
    turn_id = stack.chat(HI)["turn_id"]
    event = post(turn_id=turn_id, kind="thumb", value=1)[1]
    other = stack.add_key("other")
    with stack.client(other) as client:
        assert client.get(f"/v1/feedback/{event['id']}").status_code == 404
        assert client.delete(f"/v1/feedback/{event['id']}").status_code == 404
    with stack.client() as client:
        assert client.delete(f"/v1/feedback/{event['id']}").json()["withdrawn_at"] is not None
        assert client.get("/v1/feedback/nothing").status_code == 404
    assert following(stack, turn_id) == []
    assert stack.turn(turn_id)["state"] == "observed"
    assert stack.wake.heard(2) == [turn_id, turn_id]
