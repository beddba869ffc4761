"""Engine and gateway as processes of their own, for benches that measure them from outside."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from afterturn_cli.ports import free_ports
from afterturn_cli.services import ONLY_GATEWAY
from bench.waiting import wait_until

READY_S = 120.0


@dataclass(frozen=True)
class Served:
    """A process that answers HTTP."""

    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        """Processor seconds that it and its children have used."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in family)


@contextmanager
def serving(
    command: Sequence[str], port: int, ready: str, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Run a command until it answers 200 at the path `ready`, and stop it at the end."""
    url = f"http://127.0.0.1:{port}"
    with Path(os.environ.get("BENCH_LOG", os.devnull)).open("a") as log:
        running = subprocess.Popen(
            list(command), env={**os.environ, **(environment or {})}, stdout=log, stderr=log
        )
    try:
        wait_until(
            lambda: running.poll() is not None or _answers(url + ready),
            f"{command[:4]} answers",
            patience_s=READY_S,
        )
        if running.poll() is not None:
            raise RuntimeError(f"{command[:4]} did not start")
        yield Served(url, psutil.Process(running.pid))
    finally:
        running.terminate()
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, verify=False).status_code == 200
    except httpx.HTTPError:
        return False


@dataclass(frozen=True)
class Gateway(Served):
    """A gateway with a fresh database; the key is that of the agent `default`."""

    key: str
    folder: Path


@contextmanager
def gateway(folder: Path, engine_url: str, variables: Mapping[str, str] | None = None) -> Iterator[Gateway]:
    """Migrate a database in `folder` and serve over it; no broker, nothing but the gateway."""
    (port,) = free_ports(1)
    environment = {
        **ONLY_GATEWAY,
        "AFTERTURN_DATA_DIR": str(folder),
        "AFTERTURN_PORT": str(port),
        "AFTERTURN_ENGINE_URL": engine_url,
        "AFTERTURN_LOG_LEVEL": "warning",
        **(variables or {}),
    }
    migrate = [sys.executable, "-m", "afterturn_cli", "migrate"]
    subprocess.run(migrate, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
    with serving([sys.executable, "-m", "bench.counted_gateway"], port, "/readyz", environment) as served:
        keys = dict(line.split("=", 1) for line in (folder / "keys.env").read_text().split())
        yield Gateway(served.url, served.process, keys["AFTERTURN_API_KEY"], folder)
