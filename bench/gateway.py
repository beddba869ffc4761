"""What the gateway costs: requests a second through it, beside an engine alone, a relay and LiteLLM's proxy.

    python -m bench.gateway [--connections 16] [--seconds 8] [--litellm VENV]

All stand before the same stub engine, which answers 20 tokens at once, and are asked by the same client, one
after the other, so that each has the machine to itself. Afterturn records every reply before it ends. LiteLLM
is installed into an environment of its own, which is no dependency of ours.
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from afterturn_cli.ports import free_ports
from bench.machine import write_result
from bench.processes import Served, gateway, serving
from bench.wire import Wire, whole

WARM_S = 2.0
LITELLM_KEY = "sk-bench-0123456789"
PATH = "/v1/chat/completions"


@dataclass
class Load:
    """Requests that were answered while the clock ran."""

    seconds: float = 0.0
    took_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0

    @property
    def rps(self) -> float:
        """Requests a second."""
        return len(self.took_ms) / self.seconds


def quantile(values: list[float], share: float) -> float:
    """The value below which so large a share of them lies."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)


async def _client(
    url: str, key: str, model: str, stream: bool, names: Iterator[int], load: Load, end: float
) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with Wire(url) as wire:
        while (began := time.perf_counter()) < end:
            text = f"Question {next(names)}: what is the capital of France, and since when?"
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
            content = orjson.dumps({"model": model, "messages": messages, "stream": stream})
            head = await wire.ask(PATH, content, headers)
            if head.status != 200:
                raise RuntimeError(f"{url}: HTTP {head.status}: {(await whole(wire, head))[:500]!r}")
            if stream:
                last = b""
                async for piece in wire.body(head):
                    if not last:
                        load.first_ms.append(1000 * (time.perf_counter() - began))
                    last = piece
                if not last.endswith(b"data: [DONE]\n\n"):
                    raise RuntimeError(f"{url}: a stream ended in {last[-200:]!r}")
            elif b"word19" not in await whole(wire, head):
                raise RuntimeError(f"{url}: not the stub's reply")
            load.took_ms.append(1000 * (time.perf_counter() - began))


async def _load(url: str, key: str, model: str, stream: bool, connections: int, seconds: float) -> Load:
    load, names = Load(), itertools.count()
    began = time.perf_counter()
    clients = (_client(url, key, model, stream, names, load, began + seconds) for _ in range(connections))
    await asyncio.gather(*clients)
    load.seconds = time.perf_counter() - began
    return load


def measure(served: Served, key: str, model: str, connections: int, seconds: float) -> dict[bool, Load]:
    """Plain and streamed, each after a short run that does not count."""
    found = {}
    for stream in (False, True):
        asyncio.run(_load(served.url, key, model, stream, connections, WARM_S))
        used = served.cpu_s()
        load = asyncio.run(_load(served.url, key, model, stream, connections, seconds))
        load.cpu_ms = 1000 * (served.cpu_s() - used) / len(load.took_ms)
        found[stream] = load
    return found


@contextmanager
def relay(engine: Served) -> Iterator[Served]:
    """The 30-line relay."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "uvicorn", "bench.relay:app", "--port", str(port), "--no-access-log"]
    with serving(command, port, "/docs", {"RELAY_ENGINE_URL": engine.url}) as served:
        yield served


@contextmanager
def litellm(engine: Served, environment: Path, folder: Path) -> Iterator[Served]:
    """LiteLLM's proxy, without a database."""
    config, (port,) = folder / "litellm.json", free_ports(1)
    deployment = {"model": "openai/base", "api_base": f"{engine.url}/v1", "api_key": "none"}
    config.write_bytes(
        orjson.dumps(
            {
                "model_list": [{"model_name": "default", "litellm_params": deployment}],
                "general_settings": {"master_key": LITELLM_KEY},
                "litellm_settings": {"telemetry": False, "num_retries": 0},
            }
        )
    )
    command = [str(environment / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    quiet = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with serving([*command, "--port", str(port)], port, "/health/liveliness", quiet) as served:
        yield served


def prepared(environment: Path) -> Path:
    """An environment with LiteLLM's proxy in it, made if it is not there."""
    if not (environment / "bin" / "litellm").exists():
        print(f"installing LiteLLM into {environment}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "litellm[proxy]"]
        subprocess.run(pip, check=True)
    return environment


def figures(loads: Mapping[bool, Load]) -> dict[str, float]:
    """One arm of the result."""
    plain, stream = loads[False], loads[True]
    return {
        "plain_rps": round(plain.rps, 1),
        "stream_rps": round(stream.rps, 1),
        "plain_p50_ms": quantile(plain.took_ms, 0.5),
        "plain_p99_ms": quantile(plain.took_ms, 0.99),
        "stream_ttft_p50_ms": quantile(stream.first_ms, 0.5),
        "plain_cpu_ms": round(plain.cpu_ms, 2),
        "stream_cpu_ms": round(stream.cpu_ms, 2),
    }


def main() -> int:
    """Measure every arm and write `bench/results/gateway.json`; 0 if both bars are met."""
    parser = argparse.ArgumentParser(description="requests a second, beside a relay and LiteLLM")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--litellm", type=Path, default=Path(".venv-litellm"))
    parser.add_argument("--arms", default="stub,relay,litellm,afterturn")
    options = parser.parse_args()
    arms = options.arms.split(",")
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="afterturn-gateway-") as name:
        folder, (port,) = Path(name), free_ports(1)
        command = [sys.executable, "-m", "bench.stub_engine", "--port", str(port)]
        with serving(command, port, "/health") as engine:
            for arm in arms:
                if arm == "stub":
                    loads = measure(engine, "none", "base", options.connections, options.seconds)
                elif arm == "relay":
                    with relay(engine) as served:
                        loads = measure(served, "none", "base", options.connections, options.seconds)
                elif arm == "litellm":
                    with litellm(engine, prepared(options.litellm), folder) as served:
                        loads = measure(served, LITELLM_KEY, "default", options.connections, options.seconds)
                else:
                    with gateway(folder / "data", engine.url) as ours:
                        loads = measure(ours, ours.key, "default", options.connections, options.seconds)
                found[arm] = figures(loads)
                print(arm, found[arm], flush=True)
    return _report(found, options.connections, options.seconds) if len(arms) == 4 else 0


def _report(found: Mapping[str, Mapping[str, float]], connections: int, seconds: float) -> int:
    ratios = {
        f"{kind}_by_{peer}": round(found["afterturn"][f"{kind}_rps"] / found[peer][f"{kind}_rps"], 2)
        for kind in ("plain", "stream")
        for peer in ("relay", "litellm")
    }
    result: dict[str, object] = {
        **found,
        "ratios": ratios,
        "connections": connections,
        "seconds_an_arm": seconds,
        "load_average_before": round(os.getloadavg()[2], 2),
    }
    path = write_result("gateway", result)
    for name, value in ratios.items():
        print(f"{name:26} {value}")
    print(path)
    met = min(ratios["plain_by_relay"], ratios["stream_by_relay"]) >= 0.4
    return 0 if met and min(ratios["plain_by_litellm"], ratios["stream_by_litellm"]) >= 10 else 1


if __name__ == "__main__":
    sys.exit(main())
