"""Many streams at once: all whole, no database connection held meanwhile, slow readers on their own."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson

from afterturn_core.models import Turn
from afterturn_engine.scripted import Reply, Script

from .conftest import eventually

CHAT = "/v1/chat/completions"
STREAMS = 40
PIECES = 30
IPV4 = Path("/proc/sys/net/ipv4")


def test_streams_hold_no_database_connection_and_are_all_whole(start):
    script = Script(replies=(Reply(when="Stream", pieces=("ab ",) * PIECES, piece_ms=100),))
    with start(script) as stack, stack.client() as client:
        pool = stack.database.engine.pool

        def one(number):
            messages = [{"role": "user", "content": f"Stream {number}"}]
            body = {"model": "default", "messages": messages, "stream": True}
            with client.stream("POST", CHAT, json=body) as response:
                lines = [line for line in response.iter_lines() if line.startswith("data: ")]
                return response.headers["x-turn-id"], lines

        def none_is_held():
            before = stack.engine.running
            return before == STREAMS and pool.checkedout() == 0 and stack.engine.running == before

        with ThreadPoolExecutor(STREAMS) as threads:
            streams = [threads.submit(one, number) for number in range(STREAMS)]
            eventually(none_is_held)
            ended = [stream.result() for stream in streams]
        assert {lines[-1] for _, lines in ended} == {"data: [DONE]"}
        assert {sum('"ab "' in line for line in lines) for _, lines in ended} == {PIECES}
        for turn_id, _ in ended:
            turn = stack.turn(turn_id)
            assert (turn["reply"]["content"], len(turn["token_ids"])) == ("ab " * PIECES, PIECES + 1)
        assert stack.app.state.gateway.outage.away is False


def test_a_slow_reader_loses_nothing_blocks_nobody_and_holds_the_engine_back(start):
    """Its reply is larger than everything that could hold it on the way: the engine has to wait for it."""
    piece, count = "x" * 3000, 200  # a thousand tokens, which as log-probabilities are 90 kB
    much = Reply(when="much", pieces=(piece,) * count)
    with start(Script(replies=(much, Reply(content="quick")), context_length=10_000_000)) as stack:
        body = {"messages": [{"role": "user", "content": "much"}], "stream": True, "logprobs": True}
        with asked(stack, {"model": "default", **body}) as wire:
            received = wire.recv(4096)
            for _ in range(10):  # a little at a time, while others are served
                received += wire.recv(1000)
                reply = stack.chat([{"role": "user", "content": "hello"}])
                assert reply["choices"][0]["message"]["content"] == "quick"
            if buffers() < 90_000 * count:
                assert stack.engine.running == 1
                assert stack.engine.generated_tokens < 1000 * count
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            while more := wire.recv(1 << 20):
                received += more
        assert b"data: [DONE]" in received
        assert received.count(b'"content":"' + piece.encode() + b'"') == count
        turn_id = received[received.index(b"x-turn-id: ") + 11 :].split(b"\r\n", 1)[0].decode()
        with stack.database.read() as session:
            assert session.get_one(Turn, turn_id).completion_tokens == 1000 * count + 1
        assert eventually(lambda: stack.engine.running == 0)


def asked(stack, body):
    """A connection with a small buffer that has asked something and is closed behind the answer."""
    content = orjson.dumps(body)
    host, port = stack.url.removeprefix("http://").split(":")
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect((host, int(port)))
    wire.sendall(
        b"POST /v1/chat/completions HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {stack.key}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
    return wire


def buffers():
    """Bytes that this machine may hold in sockets that nobody reads from the engine to a client."""
    return 2 * int((IPV4 / "tcp_wmem").read_text().split()[2]) + 4_000_000


def test_objects_and_tasks_stay_as_many(start):
    with start(Script(replies=(Reply(pieces=("ab ",) * 5),))) as stack, stack.client() as client:

        def wave():
            body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}
            with ThreadPoolExecutor(10) as threads:
                answers = list(threads.map(lambda _: client.post(CHAT, json=body), range(30)))
            assert {answer.text.rstrip()[-6:] for answer in answers} == {"[DONE]"}

        wave()
        before = eventually(lambda: tasks(stack))
        wave()
        eventually(lambda: tasks(stack) <= before)


def tasks(stack):
    """Asyncio tasks of the gateway's loop."""
    return asyncio.run_coroutine_threadsafe(_count(), stack.app.state.gateway.loop).result(60)


async def _count():
    return len(asyncio.all_tasks())
