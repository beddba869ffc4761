"""How soon does the engine stop when a client leaves? Field case B07 at its own pace.

    python -m bench.departures [--repetitions 50]

The scripted engine takes 3 s to read a prompt and 100 ms for a token. Clients leave 1 s into reading, after
three tokens, and 1 s into a request without a stream; each leaves alone, one after the other in each window,
the three windows side by side on an engine and a gateway of their own.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
from sqlmodel import select

from afterturn_cli.ports import free_ports
from afterturn_core.database import Database
from afterturn_core.models import Turn
from bench.machine import write_result
from bench.processes import Gateway, gateway, serving
from bench.waiting import wait_until
from bench.wire import Wire

PREFILL_MS, TOKEN_MS = 3000, 100
IDLE_S = 120.0  # a reply that nobody stops ends by itself within this


@dataclass(frozen=True)
class Window:
    """When a client leaves: `after_s` seconds after so many tokens of the answer to `text`."""

    text: str
    stream: bool
    tokens: int
    after_s: float


WINDOWS = {
    "in prefill": Window("read", stream=True, tokens=0, after_s=1.0),
    "after 3 tokens": Window("talk", stream=True, tokens=3, after_s=0.0),
    "without a stream": Window("talk", stream=False, tokens=0, after_s=1.0),
}


@dataclass(frozen=True)
class Left:
    """One departure: tokens beyond those at the close, and seconds until the engine was idle."""

    tokens_after: int
    idle_after_s: float


def state(engine_url: str) -> tuple[int, int]:
    """(tokens generated so far, requests in hand)."""
    told = httpx.get(f"{engine_url}/scripted/state", trust_env=False, verify=False, timeout=60).json()
    return int(told["generated_tokens"]), int(told["running"])


async def leave(served: Gateway, window: Window) -> None:
    """Ask, wait as the window says, hang up."""
    messages = [{"role": "user", "content": window.text}]
    content = orjson.dumps({"model": "default", "messages": messages, "stream": window.stream})
    async with Wire(served.url) as wire:
        headers = {"Authorization": f"Bearer {served.key}"}
        asking = asyncio.create_task(wire.ask("/v1/chat/completions", content, headers))
        if window.tokens:
            seen = 0
            async for piece in wire.body(await asking):
                seen += piece.count(b'"content":"ab "')
                if seen >= window.tokens:
                    break
        await asyncio.sleep(window.after_s)  # nothing shows how far the engine has read
        asking.cancel()


def run(window: Window, repetitions: int) -> tuple[list[Left], int]:
    """One window on an engine and a gateway of its own: each departure, and how many were recorded."""
    found = []
    with tempfile.TemporaryDirectory(prefix="afterturn-departures-") as name:
        folder = Path(name)
        script, (port,) = folder / "script.json", free_ports(1)
        endless = {"pieces": ["ab "] * 1000, "piece_ms": TOKEN_MS}
        replies = [{"when": "read", **endless, "prefill_ms": PREFILL_MS}, {"when": "talk", **endless}]
        script.write_text(json.dumps({"replies": [*replies, {"content": "here"}]}))
        command = [sys.executable, "-m", "afterturn_engine.scripted", "--port", str(port)]
        with (
            serving([*command, "--script", str(script)], port, "/health") as engine,
            gateway(folder / "data", engine.url) as served,
        ):
            for _ in range(repetitions):
                asyncio.run(leave(served, window))
                closed, at_close = time.monotonic(), state(engine.url)[0]
                wait_until(
                    lambda: not state(engine.url)[1], "the engine is idle", patience_s=IDLE_S, every_s=0.01
                )
                idle = time.monotonic() - closed
                found.append(Left(state(engine.url)[0] - at_close, idle))
                second = httpx.post(
                    f"{served.url}/v1/chat/completions",
                    json={"model": "default", "messages": [{"role": "user", "content": "there?"}]},
                    headers={"Authorization": f"Bearer {served.key}"},
                    verify=False,
                    timeout=60,
                )
                second.raise_for_status()
            return found, departed(served)


def departed(served: Gateway) -> int:
    """Turns that say so and are never trained."""
    database = Database(f"sqlite:///{served.folder / 'afterturn.db'}")
    with database.read() as session:
        asked = select(Turn.id).where(Turn.excluded_reason == "client_disconnected", Turn.state == "excluded")
        found = len(session.exec(asked).all())
    database.close()
    return found


def main() -> int:
    """Measure and write `bench/results/departures.json`; 0 if the engine stopped in time every time."""
    parser = argparse.ArgumentParser(description="how soon the engine stops when a client leaves")
    parser.add_argument("--repetitions", type=int, default=50)
    options = parser.parse_args()
    with ThreadPoolExecutor(len(WINDOWS)) as pool:
        ran = pool.map(run, WINDOWS.values(), [options.repetitions] * len(WINDOWS))
        found = dict(zip(WINDOWS, ran, strict=True))
    result: dict[str, object] = {
        window: {
            "repetitions": len(left),
            "tokens_after_close_max": max(one.tokens_after for one in left),
            "idle_after_s_p50": round(sorted(one.idle_after_s for one in left)[len(left) // 2], 3),
            "idle_after_s_max": round(max(one.idle_after_s for one in left), 3),
            "recorded_as_departed": recorded,
        }
        for window, (left, recorded) in found.items()
    }
    path = write_result("departures", result)
    for window, told in result.items():
        print(f"{window:20} {told}")
    print(path)
    good = (
        recorded == options.repetitions and all(one.tokens_after <= 2 for one in left)
        for left, recorded in found.values()
    )
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
