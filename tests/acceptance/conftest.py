"""Real processes: a tiny random model for real engines, and a scripted engine where none is needed."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.tiny_model import build_tiny_model

from afterturn_cli.ports import free_ports

# Long enough for a machine whose cores are all busy: what waits ends as soon as it holds.
PATIENCE_S = 180.0


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Look again and again until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny model."""
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def scripted_engine() -> Iterator[str]:
    """The URL of an engine that echoes."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "afterturn_engine.scripted", "--port", str(port)])
    try:
        wait_until(lambda: answers(f"{url}/health"), "the scripted engine answers")
        yield url
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    """Whether it is there and well."""
    try:
        return httpx.get(url, timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False
