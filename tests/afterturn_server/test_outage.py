"""A database that is away: told at once and properly, nothing acknowledged lost, back by itself."""

import json
import sqlite3
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import event
from sqlmodel import select

from afterturn_core.database import Database
from afterturn_core.models import Turn
from afterturn_engine.scripted import Reply, Script

from .conftest import eventually

CHAT = "/v1/chat/completions"
PATIENCE_S = 0.5  # of the gateway with its database


def chat(text="hi", **body):
    return {"model": "default", "messages": [{"role": "user", "content": text}], **body}


@contextmanager
def locked(stack):
    """Somebody else holds the write lock."""
    other = sqlite3.connect(stack.database.engine.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.rollback()
    other.close()


@contextmanager
def pragma(stack, statement):
    """Every connection that is taken from the pool is told something first."""
    on = threading.Event()
    on.set()

    def tell(connection, _record, _proxy):
        if on.is_set():
            connection.execute(f"PRAGMA {statement}")

    event.listen(stack.database.engine, "checkout", tell)
    yield
    on.clear()


@contextmanager
def read_only(stack):
    with pragma(stack, "query_only=ON"):
        yield
    event.listen(
        stack.database.engine, "checkout", lambda connection, *_: connection.execute("PRAGMA query_only=OFF")
    )


@contextmanager
def full(stack):
    with pragma(stack, "max_page_count=1"):  # SQLite takes it for the pages there are now
        yield
    event.listen(
        stack.database.engine,
        "checkout",
        lambda connection, *_: connection.execute("PRAGMA max_page_count=1000000"),
    )


@contextmanager
def moved(stack):
    """The file is somewhere else for a while."""
    data = stack.settings.data_dir
    names = [name for name in data.iterdir() if name.name.startswith("afterturn.db")]
    away = data / "away"
    away.mkdir()
    for name in names:
        name.rename(away / name.name)
    yield
    for name in names:
        (away / name.name).rename(name)


def stored(stack):
    """Turn ids, read by a connection of their own."""
    database = Database(stack.settings.effective_database_url)
    with database.read() as session:
        found = set(session.exec(select(Turn.id)).all())
    database.close()
    return found


def streamed(client, **headers):
    """(turn id, data lines) of one stream read to its end."""
    with client.stream("POST", CHAT, json=chat("stream", stream=True), headers=headers) as response:
        assert response.status_code == 200, response.read()
        data = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    return response.headers.get("x-turn-id"), data


@pytest.mark.parametrize("trouble", [locked, read_only, full, moved])
def test_while_sqlite_takes_no_writes(start, trouble):
    with start(database_timeout_s=PATIENCE_S) as stack, stack.client() as client:
        acknowledged = {stack.chat([{"role": "user", "content": "before"}])["turn_id"]}
        with trouble(stack):
            status = client.post(CHAT, json=chat(long_text())).status_code
            assert status == 503  # the first one finds it out
            eventually(lambda: client.get("/readyz").status_code == 503)
            for path, body in (
                (CHAT, chat()),
                (CHAT, chat(stream=True)),
                ("/v1/feedback", thumb(acknowledged)),
            ):
                refused = client.post(path, json=body)
                assert refused.status_code == 503, refused.text
                assert int(refused.headers["retry-after"]) >= 1
                assert refused.json()["error"]["code"] == "database_unavailable"
            refused = stack.admin("GET", "turns")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            assert client.get("/healthz").json() == {"ok": True, "accepting": True}
            assert client.get("/readyz").json()["database"] == {"ok": False}
            assert "afterturn_database_away 1.0" in client.get("/metrics").text
            asked = len(stack.engine.received)
            client.post(CHAT, json=chat())
            assert len(stack.engine.received) == asked  # the engine is not bothered
        eventually(lambda: client.get("/readyz").status_code == 200)
        acknowledged.add(stack.chat([{"role": "user", "content": "after"}])["turn_id"])
        turn_id, data = streamed(client)
        assert data[-1] == "[DONE]"
        assert acknowledged | {turn_id} <= stored(stack)


def long_text():
    """More than fits into the pages that are free."""
    return "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(5000))


def thumb(turn_ids):
    return {"turn_id": next(iter(turn_ids)), "kind": "thumb", "value": 1}


def begun_streams(stack, count):
    """Streams that have begun, each with what came so far."""
    client = stack.client()
    stack.cleanup.callback(client.close)
    opened = []
    for _ in range(count):
        context = client.stream("POST", CHAT, json=chat("slow", stream=True))
        response = stack.cleanup.enter_context(context)
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
        opened.append((response.headers["x-turn-id"], lines))
    return opened


SLOW = Script(replies=(Reply(when="slow", pieces=("one ", "two ", "three "), piece_ms=400),))


def test_streams_that_began_before_end_with_an_error_and_not_with_done(start):
    with start(SLOW, database_timeout_s=PATIENCE_S) as stack:
        streams = begun_streams(stack, 3)
        with locked(stack):
            ends = [[line[6:] for line in lines if line.startswith("data: ")] for _, lines in streams]
        for data in ends:
            assert "[DONE]" not in data
            assert json.loads(data[-1])["error"]["code"] == "database_unavailable"


def test_streams_wait_a_while_for_the_database_to_come_back(start):
    with start(SLOW, database_timeout_s=30) as stack:
        streams = begun_streams(stack, 3)
        with read_only(stack):
            eventually(lambda: stack.app.state.gateway.outage.away)
        for turn_id, lines in streams:
            assert [line for line in lines if line][-1] == "data: [DONE]"
            assert turn_id in stored(stack)


def test_with_serve_without_log_known_keys_are_served_and_nothing_pretends_to_be_recorded(start):
    with start(database_timeout_s=PATIENCE_S, serve_without_log=True) as stack, stack.client() as client:
        before = stack.chat([{"role": "user", "content": "before"}])["turn_id"]
        other = stack.add_key("default")
        with read_only(stack):
            found_out = client.post(CHAT, json=chat())
            assert found_out.status_code == 200
            eventually(lambda: stack.app.state.gateway.outage.away)
            unlogged = client.post(CHAT, json=chat())
            for answer in (found_out, unlogged):
                assert answer.json()["choices"][0]["message"]["content"] == "hi"
                assert "x-turn-id" not in answer.headers
                assert "session_id" not in answer.json()
                assert answer.headers["x-adapter"] == "base"
            turn_id, data = streamed(client)
            assert (turn_id, data[-1]) == (None, "[DONE]")
            assert "afterturn_unlogged_total 3.0" in client.get("/metrics").text
            with stack.client(other) as stranger:
                assert stranger.post(CHAT, json=chat()).status_code == 503
        eventually(lambda: client.get("/readyz").status_code == 200)
        after = stack.chat([{"role": "user", "content": "after"}])["turn_id"]
        assert stored(stack) == {before, after}


def test_a_file_put_in_its_place_is_taken_to(start, template):
    """A restored backup: its connections are the new file's."""
    with start(database_timeout_s=PATIENCE_S) as stack, stack.client() as client:
        stack.chat([{"role": "user", "content": "before"}])
        data = stack.settings.data_dir
        for name in data.glob("afterturn.db*"):
            name.unlink()
        assert client.post(CHAT, json=chat()).status_code == 503
        (data / "new.db").write_bytes((template / "afterturn.db").read_bytes())
        (data / "new.db").rename(data / "afterturn.db")
        eventually(lambda: client.get("/readyz").status_code == 200)
        after = stack.chat([{"role": "user", "content": "after"}])["turn_id"]
        assert stored(stack) == {after}
