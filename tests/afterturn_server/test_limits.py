"""Limits: size as sent and unpacked, depth, headers; requests a minute and tokens a day over processes."""

import gzip
import zlib

import httpx
import orjson
import pytest
from tests.served import served

from afterturn_core.database import Database
from afterturn_server.app import create_app
from afterturn_server.request_size import ADMIN_BYTES, HEADER_BYTES
from afterturn_server.usage import DAY, MINUTE, count_request, spend_tokens, tokens_used

from .conftest import RecordedWake

CHAT = "/v1/chat/completions"
BODY = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
KIND = {"Content-Type": "application/json"}


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request):
    return request.param


def code(response):
    return response.status_code, response.json()["error"]["code"]


def post(client, content, **headers):
    return client.post(CHAT, content=content, headers={**KIND, **headers})


@pytest.mark.parametrize(
    ("name", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes), ("GZIP", gzip.compress)],
)
def test_packed_bodies_are_read(start, name, pack):
    with start() as stack, stack.client() as client:
        answer = post(client, pack(orjson.dumps(BODY)), **{"Content-Encoding": name})
        assert answer.json()["choices"][0]["message"]["content"] == "hi"


def test_what_unpacks_to_too_much_or_to_nothing_is_refused(start):
    with start(max_body_bytes=100_000) as stack, stack.client() as client:
        bomb = gzip.compress(b" " * 10_000_000)
        assert len(bomb) < 100_000
        assert code(post(client, bomb, **{"Content-Encoding": "gzip"})) == (413, "request_too_large")
        cut = gzip.compress(orjson.dumps(BODY))[:-9]
        assert code(post(client, cut, **{"Content-Encoding": "gzip"})) == (400, "invalid_encoding")
        assert code(post(client, b"{}", **{"Content-Encoding": "gzip"})) == (400, "invalid_encoding")
        assert code(post(client, b"{}", **{"Content-Encoding": "br"})) == (415, "unsupported_encoding")
        chunked = iter([b" " * 60_000, b" " * 60_000])
        assert code(client.post(CHAT, content=chunked, headers=KIND)) == (413, "request_too_large")


@pytest.mark.parametrize("depth", [260, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_bodies_nested_too_deeply_are_refused(start, opening, closing, depth):
    nested = opening * depth + b"1" + closing * depth
    with start() as stack, stack.client() as client:
        whole = b'{"model":"default","messages":[{"role":"user","content":"hi","x":' + nested + b"}]}"
        assert code(post(client, whole)) == (400, "invalid_json")
        with stack.client(stack.admin_key) as admin:
            assert admin.post("/admin/api/agents", content=nested, headers=KIND).status_code == 400


def test_headers_that_are_too_long_are_refused(start):
    with start() as stack, stack.client() as client:
        answer = client.post(CHAT, json=BODY, headers={"X-Long": "a" * HEADER_BYTES})
        assert code(answer) == (431, "headers_too_large")
        assert client.post(CHAT, json=BODY, headers={"X-Long": "a" * 8000}).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_the_admin_api_reads_no_more_than_it_needs(start, chunked):
    """Before it knows who sends it: without any key too."""
    content = b'{"name": "' + b"a" * ADMIN_BYTES + b'"}'
    with start() as stack:
        with httpx.Client(base_url=stack.url, trust_env=False, verify=False) as client:
            body = iter([content[:1000], content[1000:]]) if chunked else content
            answer = client.post("/admin/api/agents", content=body, headers=KIND)
            assert code(answer) == (413, "request_too_large")
        assert stack.admin("GET", "agents").status_code == 200


def test_requests_a_minute_are_counted_over_processes(start):
    """Another process of the gateway on the same database, with a memory of its own."""
    with start() as stack:
        key = stack.add_key("default", requests_per_minute=4)
        other = Database(stack.settings.effective_database_url)
        with (
            served(create_app(stack.settings, other, RecordedWake())) as url,
            stack.client(key) as one,
            httpx.Client(base_url=url, headers=one.headers, verify=False) as two,
        ):
            answers = [client.post(CHAT, json=BODY) for client in (one, two, one, two, one, two)]
        other.close()
    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
    for answer in answers[4:]:
        assert 1 <= int(answer.headers["retry-after"]) <= 61
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("streamed", [False, True])
def test_tokens_a_day_count_what_is_not_stored(start, streamed):
    with start() as stack:
        key = stack.add_key("default", tokens_per_day=5)
        with stack.client(key) as client:
            body = {**BODY, "stream": streamed}
            first = client.post(CHAT, json=body, headers={"X-Afterturn-Store": "off"})
            assert (first.status_code, "x-turn-id" in first.headers) == (200, False)
            assert code(client.post(CHAT, json=body)) == (429, "rate_limit_exceeded")
        assert stack.admin("GET", "turns").json()["data"] == []


def test_a_window_slides(start):
    with start() as stack:
        key = stack.add_key("default")
        from sqlmodel import select

        from afterturn_core.keys import digest
        from afterturn_core.models import Key

        now = 1_000_000.5
        with stack.database.write() as session:
            key_id = session.exec(select(Key.id).where(Key.digest == digest(key))).one()
            assert [count_request(session, key_id, 2, now + later) for later in (0, 30)] == [None, None]
            wait = count_request(session, key_id, 2, now + 59)
            assert wait is not None
            assert 1 <= wait <= 2
            assert count_request(session, key_id, 2, now + MINUTE + 1) is None
            assert count_request(session, key_id, 2, now + MINUTE + 2) is not None
            spend_tokens(session, key_id, 7, now)
            spend_tokens(session, key_id, 5, now + 3600)
            assert tokens_used(session, key_id, now + 7200) == 12
            assert tokens_used(session, key_id, now + DAY + 1200) == 5
            assert tokens_used(session, key_id, now + 2 * DAY) == 0


def test_text_with_a_nul_is_the_callers_error(start):
    """PostgreSQL stores no NUL: a name with one is nobody's."""
    with start() as stack, stack.client() as client:
        for method, path in (
            ("GET", "/v1/turns/a%00b"),
            ("POST", "/v1/sessions/a%00b/end"),
            ("GET", "/v1/feedback/a%00b"),
            ("DELETE", "/v1/feedback/a%00b"),
            ("GET", "/v1/models/a%00b"),
            ("GET", "/v1/sessions?after=a%00b"),
        ):
            assert client.request(method, path).status_code in (200, 400, 404), path
        for target in ("turn_id", "response_id", "session_id"):
            event = {target: "a\0b", "kind": "thumb", "value": 1}
            assert client.post("/v1/feedback", json=event).status_code in (400, 404), target
        for path in ("turns?agent=a%00b", "turns?session_id=a%00b", "turns?after=a%00b", "rounds/a%00b"):
            assert stack.admin("GET", path).status_code in (200, 400, 404), path
