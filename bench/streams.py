"""Hundreds of streams at once through the real gateway: does any fail, what is held meanwhile and afterwards?

    python -m bench.streams [--streams 500] [--seconds 60] [--slow 10]

Every stream gets 10 tokens a second from the scripted engine, as a model would give them. Slow ones read one
event a second. A first, short wave makes the processes grow to their working size; what they hold after it
is compared with what they hold after the long one.
"""

import argparse
import asyncio
import json
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import psutil
from sqlmodel import col, select

from afterturn_cli.ports import free_ports
from afterturn_core.database import Database
from afterturn_core.models import Turn
from bench.machine import write_result
from bench.processes import Gateway, gateway, serving
from bench.waiting import wait_until
from bench.wire import Wire

TOKEN_MS = 100
PIECE = "ab "  # one token of the scripted engine
WARM_S = 5  # seconds of the first wave
SETTLE_S = 8.0  # idle connections to the engine are closed after 4 s
COUNT_S = 30.0  # a loaded gateway walks through all of its objects


@dataclass(frozen=True)
class Stream:
    """What one client saw."""

    turn_id: str
    tokens: int
    done: bool
    largest_gap_s: float
    failure: str | None = None


@dataclass
class Held:
    """What the gateway holds at one moment."""

    objects: int
    tasks: int
    open_files: int
    rss_mb: float


@dataclass
class Watched:
    """The gateway's own figures once a second, while every stream has begun and none has ended."""

    connections: list[int]
    rss_mb: list[float]


async def read_stream(served: Gateway, number: int, slow_s: int, progress: list[int]) -> Stream:
    """Open a stream and read it to its end; for `slow_s` seconds one piece a second."""
    content = orjson.dumps(
        {
            "model": "default",
            "stream": True,
            "messages": [{"role": "user", "content": f"Stream {number}: count."}],
        }
    )
    tokens, done, gap = 0, False, 0.0
    turn_id = ""
    try:
        async with Wire(served.url, receive_buffer=1024 if slow_s else None) as wire:
            head = await wire.ask("/v1/chat/completions", content, {"Authorization": f"Bearer {served.key}"})
            if head.status != 200:
                return Stream("", 0, False, 0.0, f"HTTP {head.status}")
            turn_id = head.headers["x-turn-id"]
            last = time.monotonic()
            read = 0
            async for piece in wire.body(head):
                now = time.monotonic()
                gap, last = max(gap, now - last), now
                tokens += piece.count(b'"content":"ab "')
                progress[number] = tokens
                done = piece.endswith(b"data: [DONE]\n\n")
                read += 1
                if read <= slow_s:
                    await asyncio.sleep(1.0)  # this is what makes a reader slow
    except (OSError, asyncio.IncompleteReadError) as error:
        return Stream(turn_id, tokens, done, gap, type(error).__name__)
    return Stream(turn_id, tokens, done, gap)


def hold(served: Gateway) -> Held:
    """Ask the gateway what it holds."""
    target = served.folder / "counts.json"
    target.unlink(missing_ok=True)
    served.process.send_signal(signal.SIGUSR1)
    wait_until(target.exists, "the gateway counts what it holds", patience_s=COUNT_S, every_s=0.05)
    return Held(**json.loads(target.read_text()), rss_mb=round(rss_mb(served.process), 1))


def rss_mb(process: psutil.Process) -> float:
    """Resident memory, MiB."""
    return float(process.memory_info().rss) / 2**20


async def watch(served: Gateway, progress: list[int], expected: int, watched: Watched) -> None:
    """Note the gateway's figures until cancelled."""

    def streaming() -> bool:
        return min(progress) > 0 and max(progress) < expected

    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        while True:
            began = streaming()
            text = (await client.get(f"{served.url}/metrics")).text
            figures = dict(
                line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")
            )
            if began and streaming():
                watched.connections.append(int(float(figures["afterturn_database_connections"])))
                watched.rss_mb.append(rss_mb(served.process))
            await asyncio.sleep(1.0)  # one sample a second


async def wave(served: Gateway, streams: int, slow: int, seconds: int) -> tuple[list[Stream], Watched, float]:
    """So many streams at once; (what each saw, what the gateway said meanwhile, seconds)."""
    watched, progress = Watched([], []), [0] * streams
    expected = seconds * 1000 // TOKEN_MS
    watching = asyncio.create_task(watch(served, progress, expected, watched))
    began = time.monotonic()
    try:
        seen = await asyncio.gather(
            *(
                read_stream(served, number, seconds if number < slow else 0, progress)
                for number in range(streams)
            )
        )
    finally:
        watching.cancel()
    return list(seen), watched, time.monotonic() - began


def recorded(served: Gateway, seen: list[Stream]) -> int:
    """How many of these streams are in the database with every token that they showed."""
    database = Database(f"sqlite:///{served.folder / 'afterturn.db'}")
    ids = [stream.turn_id for stream in seen]
    with database.read() as session:
        found = dict(session.exec(select(Turn.id, Turn.completion_tokens).where(col(Turn.id).in_(ids))).all())
    database.close()
    # One more: the end-of-turn token, which no text shows.
    return sum(found.get(stream.turn_id) == stream.tokens + 1 for stream in seen)


def main() -> int:
    """Measure and write `bench/results/streams.json`."""
    parser = argparse.ArgumentParser(description="many streams at once")
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--slow", type=int, default=10)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    result = measure(options.streams, options.seconds, options.slow)
    path = write_result("streams", result)
    for name, value in result.items():
        print(f"{name:26} {value}")
    print(path)
    good = result["failed"] == 0 and result["recorded"] == options.streams
    return 0 if good and result["connections_while_streaming"] == 0 else 1


def measure(streams: int, seconds: int, slow: int) -> dict[str, object]:
    """Both waves over fresh processes."""
    with tempfile.TemporaryDirectory(prefix="afterturn-streams-") as name:
        folder = Path(name)
        script, (port,) = folder / "script.json", free_ports(1)
        command = [sys.executable, "-m", "afterturn_engine.scripted"]
        command += ["--port", str(port), "--script", str(script)]
        script.write_text(_script(WARM_S))
        with (
            serving(command, port, "/health") as engine,
            gateway(folder / "data", engine.url) as served,
        ):
            asyncio.run(wave(served, streams, 0, WARM_S))
            time.sleep(SETTLE_S)  # so that what a wave leaves behind is what stays
            before = hold(served)
            httpx.put(f"{engine.url}/scripted/script", content=_script(seconds), verify=False)
            used = served.cpu_s()
            seen, watched, took = asyncio.run(wave(served, streams, slow, seconds))
            used = served.cpu_s() - used
            time.sleep(SETTLE_S)  # as before
            after = hold(served)
            kept = recorded(served, seen)
    expected = seconds * 1000 // TOKEN_MS
    failed = [one for one in seen if one.failure or not one.done or one.tokens != expected]
    gaps = sorted(one.largest_gap_s for one in seen[slow:])
    return {
        "streams": streams,
        "slow_readers": slow,
        "tokens_a_stream": expected,
        "seconds": round(took, 1),
        "tokens_per_s": round(sum(one.tokens for one in seen) / took),
        "failed": len(failed),
        "failures": sorted({one.failure or "incomplete" for one in failed}),
        "recorded": kept,
        "connections_while_streaming": max(watched.connections, default=-1),
        "samples_while_streaming": len(watched.connections),
        "largest_gap_s_p50": round(gaps[len(gaps) // 2], 3),
        "largest_gap_s_max": round(gaps[-1], 3),
        "gateway_cpu_share": round(used / took, 2),
        "rss_mb": {
            "before": before.rss_mb,
            "while": round(max(watched.rss_mb, default=0.0), 1),
            "after": after.rss_mb,
        },
        "objects": {"before": before.objects, "after": after.objects},
        "tasks": {"before": before.tasks, "after": after.tasks},
        "open_files": {"before": before.open_files, "after": after.open_files},
    }


def _script(seconds: int) -> str:
    pieces = [PIECE] * (seconds * 1000 // TOKEN_MS)
    return json.dumps({"replies": [{"pieces": pieces, "piece_ms": TOKEN_MS}]})


if __name__ == "__main__":
    sys.exit(main())
