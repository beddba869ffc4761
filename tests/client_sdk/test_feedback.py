from datetime import UTC, datetime

import pytest
from tests.client_sdk.scripted_server import Reply, ScriptedServer, error

from afterturn import Afterturn, BadRequest, Conflict, JSONObject, NotFound

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_every_kind_posts_what_the_contract_says(client: Afterturn, server: ScriptedServer) -> None:
    client.feedback.thumb("t1", up=False, text="too long", idempotency_key="a", occurred_at=WHEN)
    client.feedback.score("t1", 0.8, idempotency_key="b", occurred_at=WHEN, source="ci")
    client.feedback.correct("t1", "Check first", idempotency_key="c", occurred_at=WHEN)
    client.feedback.prefer(text="Yes.", response_id="r9", idempotency_key="d", occurred_at=WHEN)
    client.feedback.comment("t1", "hm", idempotency_key="e", occurred_at=WHEN)
    client.feedback.outcome(session_id="s1", value=1.0, idempotency_key="f", occurred_at=WHEN)
    when = "2026-01-02T03:04:05Z"
    assert [asked.body for asked in server.asked_for("POST /v1/feedback")] == [
        {
            "turn_id": "t1",
            "kind": "thumb",
            "value": -1,
            "text": "too long",
            "idempotency_key": "a",
            "occurred_at": when,
        },
        {
            "turn_id": "t1",
            "kind": "score",
            "value": 0.8,
            "source": "ci",
            "idempotency_key": "b",
            "occurred_at": when,
        },
        {
            "turn_id": "t1",
            "kind": "correction",
            "text": "Check first",
            "idempotency_key": "c",
            "occurred_at": when,
        },
        {
            "response_id": "r9",
            "kind": "preferred",
            "text": "Yes.",
            "idempotency_key": "d",
            "occurred_at": when,
        },
        {"turn_id": "t1", "kind": "comment", "text": "hm", "idempotency_key": "e", "occurred_at": when},
        {"session_id": "s1", "kind": "outcome", "value": 1.0, "idempotency_key": "f", "occurred_at": when},
    ]


def test_receipt_names_the_event_and_each_event_has_its_own_key(client: Afterturn) -> None:
    first, second = (client.feedback.thumb("t1", up=True) for _ in range(2))
    assert not first.kept
    assert first.id == f"f-{first.idempotency_key}"
    assert first.idempotency_key != second.idempotency_key


def test_same_key_same_body_is_the_same_event(client: Afterturn, server: ScriptedServer) -> None:
    ids = {client.feedback.score("t1", 1, idempotency_key="k", occurred_at=WHEN).id for _ in range(3)}
    assert ids == {"f-k"}
    with pytest.raises(Conflict):
        client.feedback.score("t1", 0, idempotency_key="k", occurred_at=WHEN)
    assert len(server.stored) == 1


def test_refusals_are_raised_and_not_kept(client: Afterturn, server: ScriptedServer) -> None:
    with pytest.raises(NotFound):
        client.feedback.thumb("unknown", up=True)
    server.reply("POST /v1/feedback", Reply(400, error("must be text", code="invalid", param="text")))
    with pytest.raises(BadRequest) as refused:
        client.feedback.comment("t1", "x")
    assert (refused.value.field, refused.value.code) == ("text", "invalid")
    assert client.feedback.pending() == ()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), None])
def test_a_score_outside_its_range_is_not_sent(
    client: Afterturn, server: ScriptedServer, value: float | None
) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        client.feedback.score("t1", value)
    with pytest.raises(ValueError, match="between 0 and 1"):
        client.feedback.outcome(session_id="s", value=value)
    assert server.asked == []


def test_wrong_arguments_are_not_sent(client: Afterturn, server: ScriptedServer) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        client.feedback.thumb(up=True)
    with pytest.raises(ValueError, match="exactly one"):
        client.feedback.thumb("t1", up=True, session_id="s1")
    with pytest.raises(ValueError, match="empty"):
        client.feedback.correct("t1", "  ")
    with pytest.raises(ValueError, match="time zone"):
        client.feedback.thumb("t1", up=True, occurred_at=datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="txt"):
        client.feedback.thumb("t1", up=True, txt="typo")  # type: ignore[call-arg]
    assert server.asked == []


def test_get_and_delete(client: Afterturn, server: ScriptedServer) -> None:
    stored: JSONObject = {
        "id": "f1",
        "kind": "score",
        "value": 1,
        "turn_id": "t1",
        "occurred_at": "2026-01-02T03:04:05Z",
    }
    server.reply("GET /v1/feedback/f1", Reply(body={**stored, "of": "a later version"}))
    server.reply("DELETE /v1/feedback/f1", Reply(204, text=""))
    event = client.feedback.get("f1")
    assert (event.kind, event.value, event.occurred_at, event.text) == ("score", 1.0, WHEN, None)
    client.feedback.delete("f1")
    assert [asked.method for asked in server.asked] == ["GET", "DELETE"]
