import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.client_sdk.conftest import ADMIN, KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer, error, free_port

from afterturn import (
    Afterturn,
    AsyncAfterturn,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    MalformedReply,
    NotFound,
    RequestTimedOut,
    ServerError,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from afterturn.retry import retry_after, retry_delay


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (418, StatusError),
        (422, BadRequest),
        (429, TooManyRequests),
        (500, ServerError),
        (307, StatusError),
    ],
)
def test_each_status_has_its_error(
    client: Afterturn, server: ScriptedServer, status: int, kind: type[StatusError]
) -> None:
    headers = {"x-request-id": "req-7", "retry-after": "99"}
    server.reply("GET /v1/turns/t1", Reply(status, error("it broke", code="why"), headers))
    with pytest.raises(StatusError) as caught:
        client.turns.get("t1")
    failure = caught.value
    assert type(failure) is kind
    assert (failure.status, failure.request_id, failure.code) == (status, "req-7", "why")
    assert failure.retry_after == 99
    assert failure.body == error("it broke", code="why")
    assert str(failure) == f"{status}: it broke (request req-7)"


def test_a_body_that_is_not_json_is_still_an_error_one_can_read(
    client: Afterturn, server: ScriptedServer
) -> None:
    server.reply("GET /v1/turns/t1", Reply(500, text="<h1>proxy</h1>"))
    server.reply("GET /v1/turns/t2", Reply(200, text="<h1>proxy</h1>"))
    server.reply("GET /v1/turns/t3", Reply(200, body=[]))
    server.reply("GET /v1/turns/t4", Reply(200, body={"id": 7}))
    with pytest.raises(ServerError, match="500: <h1>proxy"):
        client.turns.get("t1")
    for turn, reason in (("t2", "not JSON"), ("t3", "expected an object"), ("t4", r"Turn\.id: expected str")):
        with pytest.raises(MalformedReply, match=reason):
            client.turns.get(turn)


def test_reading_is_tried_again_and_waits_as_long_as_asked(client: Afterturn, server: ScriptedServer) -> None:
    server.reply(
        "GET /v1/turns/t1",
        Reply(503, error("busy"), {"retry-after": "1"}),
        Reply(502, error("busy")),
        Reply(body={"id": "t1"}),
    )
    assert client.turns.get("t1").id == "t1"
    first, second, third = (asked.at for asked in server.asked)
    assert second - first >= 1.0
    assert third - second >= 0.5  # half of the second attempt's second at least


def test_reading_gives_up_after_max_retries(server: ScriptedServer, tmp_path: Path) -> None:
    server.reply("GET /v1/turns/t1", Reply(503, error("busy")))
    with (
        Afterturn(server.url, KEY, max_retries=1, outbox_dir=tmp_path) as client,
        pytest.raises(ServerError),
    ):
        client.turns.get("t1")
    assert len(server.asked) == 2


def test_what_may_have_happened_is_not_done_again(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/rounds", Reply(503, error("busy")))
    server.reply("DELETE /v1/turns/t1", Reply(cut=True))
    with pytest.raises(ServerError):
        client.rounds.start("default")
    with pytest.raises(ConnectionFailed) as cut:
        client.turns.delete("t1")
    assert cut.value.sent
    assert len(server.asked) == 2


def test_feedback_is_tried_again_with_the_same_key(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /v1/feedback", Reply(503, error("busy")), Reply(201, {"id": "f1"}))
    assert client.feedback.thumb("t1", up=True).id == "f1"
    first, second = server.asked
    assert first.body == second.body


def test_a_silent_server_times_out() -> None:
    import socket

    with socket.socket() as listener:  # accepts, and says nothing
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Afterturn(url, KEY, timeout=0.2, max_retries=0, keep_events=False) as client:
            with pytest.raises(RequestTimedOut) as silent:
                client.turns.get("t1")
            assert silent.value.sent


def test_awaited_verbs_retry_and_raise_alike(server: ScriptedServer, tmp_path: Path) -> None:
    server.reply("GET /v1/turns/t1", Reply(503, error("busy")), Reply(body={"id": "t1"}))
    server.reply("GET /v1/turns/t2", Reply(403, error("no")))

    async def course() -> None:
        async with AsyncAfterturn(server.url, KEY, outbox_dir=tmp_path) as client:
            assert (await client.turns.get("t1")).id == "t1"
            with pytest.raises(Forbidden):
                await client.turns.get("t2")
        async with AsyncAfterturn(f"http://127.0.0.1:{free_port()}", KEY, max_retries=0) as client:
            with pytest.raises(ConnectionFailed):
                await client.turns.get("t1")

    asyncio.run(course())


def test_an_awaited_wait_can_be_cancelled(server: ScriptedServer) -> None:
    server.reply("GET /admin/api/rounds/r1", Reply(body={"id": "r1", "state": "training"}))

    async def course() -> None:
        async with AsyncAfterturn(server.url, admin_key=ADMIN) as client:
            task = asyncio.create_task(client.rounds.wait("r1", poll=60))
            while not server.asked:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(course())


def test_delays_by_hand() -> None:
    refused = ConnectionFailed("x", sent=False)
    lost = ConnectionFailed("x", sent=True)
    assert retry_delay(refused, attempt=0, safe=False, jitter=0.0) == 0.25
    assert retry_delay(refused, attempt=2, safe=False, jitter=0.5) == 1.5
    assert retry_delay(refused, attempt=9, safe=True, jitter=0.0) == 4.0
    assert retry_delay(lost, attempt=0, safe=False, jitter=0.0) is None
    assert retry_delay(lost, attempt=0, safe=True, jitter=0.0) == 0.25


def test_retry_after_is_a_number_or_a_date() -> None:
    now = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
    assert retry_after("2.5", now=now) == 2.5
    assert retry_after("-4", now=now) == 0
    assert retry_after("Mon, 30 Nov 2026 12:00:07 GMT", now=now) == 7
    assert retry_after("Mon, 30 Nov 2026 11:00:00 GMT", now=now) == 0
    assert retry_after("soon", now=now) is None
    assert retry_after(None, now=now) is None


def test_more_patience_than_a_caller_has_is_an_error_at_once(
    client: Afterturn, server: ScriptedServer
) -> None:
    server.reply("GET /v1/turns/t1", Reply(429, error("tomorrow"), {"retry-after": "86400"}))
    before = time.monotonic()
    with pytest.raises(TooManyRequests) as limited:
        client.turns.get("t1")
    assert limited.value.retry_after == 86400
    assert time.monotonic() - before < 3600
    assert len(server.asked) == 1
