"""B07: a client that leaves stops the engine, whenever it leaves, and what is recorded says so."""

import asyncio
import os
import socket
import time
from contextlib import ExitStack, suppress

import orjson
import pytest

from afterturn_engine.scripted import Failure, Reply, Script

from .conftest import eventually


def leave(stack, body, *, after_events, after_s):
    """Send a request on a bare socket, wait for so many events and so long, and hang up."""
    with ask(stack, {"messages": [{"role": "user", "content": "go on"}], **body}) as wire:
        received = b""
        while received.count(b"data: ") < after_events:
            received += wire.recv(65536)
        time.sleep(after_s)


def turns(stack):
    return stack.admin("GET", "turns", params={"limit": 1000}).json()["data"]


@pytest.mark.parametrize(
    ("body", "after_events", "after_s"),
    [
        ({"stream": True}, 0, 0.3),
        ({"stream": True}, 4, 0),
        ({}, 0, 0.5),
    ],
    ids=["in prefill", "after three tokens", "waiting for the whole"],
)
def test_b07_leaving_stops_the_engine(start, body, after_events, after_s):
    slow = Reply(
        when="go on", pieces=("word ",) * 100, prefill_ms=600 if after_events == 0 else 50, piece_ms=50
    )
    with start(Script(replies=(slow,))) as stack:
        stack.chat([{"role": "user", "content": "warm up"}])
        leave(stack, body, after_events=after_events, after_s=after_s)
        eventually(lambda: stack.engine.running == 0)
        produced = stack.engine.generated_tokens
        (turn, _) = eventually(lambda: t if len(t := turns(stack)) == 2 else None)
        assert turn["finish_reason"] == "client_disconnected"
        assert (turn["state"], turn["excluded_reason"]) == ("excluded", "client_disconnected")
        if after_events:
            assert 3 <= len(turn["token_ids"]) <= produced
            assert len(turn["logprobs"]) == len(turn["token_ids"])
            assert turn["reply"]["content"].startswith("word word word")
        assert stack.chat([{"role": "user", "content": "still there?"}])["choices"]


REPETITIONS = 50
# A reply that stops of itself only when its reader is gone: nothing here depends on who is quicker.
ENDLESS = Failure(kind="hang", after_pieces=3)
WINDOWS = Script(
    replies=(
        Reply(when="prefill", pieces=("ab ",) * 100, prefill_ms=3_600_000),
        Reply(when="go on", pieces=("ab ",) * 100, failure=ENDLESS),
    )
)


@pytest.mark.parametrize(
    ("text", "streamed", "events"),
    [("prefill", True, 0), ("prefill", False, 0), ("go on", True, 4), ("go on", False, 0)],
    ids=["stream in prefill", "whole in prefill", "after three tokens", "in the middle of a whole"],
)
def test_b07_fifty_that_leave_in_one_window(start, text, streamed, events):
    """B07: fifty clients leave at the same point: the engine is free, nothing more is generated, every row
    says so with the tokens that came, is never trained and tells nothing; no task or connection is left."""
    begun = 0 if text == "prefill" else 3
    with start(WINDOWS) as stack:
        first = stack.chat([{"role": "user", "content": "hello"}])
        before = tasks(stack), connections()
        warm = stack.engine.generated_tokens
        history = [{"role": "user", "content": "hello"}, first["choices"][0]["message"]]
        body = {"messages": [*history, {"role": "user", "content": text}], "stream": streamed}
        with ExitStack() as clients:
            wires = [clients.enter_context(ask(stack, body)) for _ in range(REPETITIONS)]
            for wire in wires:
                received = b""
                while received.count(b"data: ") < events:
                    received += wire.recv(65536)
            eventually(lambda: stack.engine.running == REPETITIONS)
            eventually(lambda: stack.engine.generated_tokens == warm + begun * REPETITIONS)
        eventually(lambda: stack.engine.running == 0)
        assert stack.engine.generated_tokens == warm + begun * REPETITIONS
        left = eventually(lambda: t if len(t := turns(stack)) == 1 + REPETITIONS else None)[:-1]
        assert {(turn["state"], turn["excluded_reason"]) for turn in left} == {
            ("excluded", "client_disconnected")
        }
        assert {turn["finish_reason"] for turn in left} == {"client_disconnected"}
        assert {len(turn["token_ids"]) for turn in left} == {begun if streamed else 0}
        assert {turn["reply"]["content"] for turn in left} == {"ab " * begun if streamed else ""}
        assert stack.turn(first["turn_id"])["next_state"] == []
        assert stack.chat([{"role": "user", "content": "still there?"}])["choices"]
        eventually(lambda: tasks(stack) <= before[0] and connections() <= before[1])


def ask(stack, body):
    """A bare socket that has sent a request."""
    content = orjson.dumps({"model": "default", **body})
    host, port = stack.url.removeprefix("http://").split(":")
    wire = socket.create_connection((host, int(port)))
    wire.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {stack.key}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
    return wire


def connections():
    """Sockets of this process, which client, gateway and engine run in."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return found


def tasks(stack):
    """Asyncio tasks of the gateway's loop."""
    loop = stack.app.state.gateway.loop
    return asyncio.run_coroutine_threadsafe(_count(), loop).result(60)


async def _count():
    return len(asyncio.all_tasks())
