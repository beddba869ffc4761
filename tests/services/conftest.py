"""Real services: a Redis of each test's own, and processes of ours beside it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.services.redis_server import PATIENCE_S, RedisServer

ROOT = Path(__file__).parents[2]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Look again and again until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.05)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that runs."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@dataclass(frozen=True)
class Running:
    """A process of ours and the file that it writes to."""

    process: subprocess.Popen[bytes]
    output: Path
    ready: Path

    @property
    def text(self) -> str:
        """What it has written."""
        return self.output.read_text("utf-8", "replace")


@contextmanager
def running(
    module: str, *arguments: str, folder: Path, name: str, environment: Mapping[str, str]
) -> Iterator[Running]:
    """Run `python -m MODULE ARGUMENTS --ready-file …` for the length of the block; killed at its end."""
    folder.mkdir(exist_ok=True)
    output, ready = folder / f"{name}.log", folder / f"{name}.ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, *arguments]
    if module not in ("afterturn_server", "afterturn_engine.scripted"):
        command += ["--ready-file", str(ready)]
    with output.open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    try:
        yield Running(process, output, ready)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
