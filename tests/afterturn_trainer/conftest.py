"""A tiny model on disk and the embedded engine serving it, started once and only if a test asks."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from bench.vllm.serve import free_port
from tests.afterturn_trainer.world import World
from tests.tiny_model import build_tiny_model

from afterturn_core.engine_client import EngineClient
from afterturn_engine.scripted import Failure, Reply, Script, create_app

READY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Install:
    """What all tests share: the model's folder, the data directory, the engine's address."""

    model: Path
    data_dir: Path
    engine_url: str


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def install(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """One data directory for all, so that what the base model answers to the probes is asked once."""
    data_dir = tmp_path_factory.mktemp("data")
    (data_dir / "adapters").mkdir()
    port = free_port()
    command = [sys.executable, "-m", "afterturn_engine", "--model", str(tiny_folder), "--port", str(port)]
    process = subprocess.Popen([*command, "--adapter-root", str(data_dir / "adapters")])
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_healthy(url, process)
        yield Install(tiny_folder, data_dir, url)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="session")
def scripted() -> Iterator[EngineClient]:
    """The scripted engine, which repeats what it is told, unless that is 'broken'."""
    broken = Reply(when="broken", failure=Failure(kind="status", status=500))
    config = uvicorn.Config(create_app(Script(replies=(broken,))), port=free_port(), log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    with EngineClient(f"http://127.0.0.1:{config.port}") as client:
        yield client
    server.should_exit = True
    thread.join()


@pytest.fixture
def world(install: Install) -> Iterator[World]:
    """A fresh agent of the shared install."""
    world = World(install.data_dir, install.model, install.engine_url)
    yield world
    world.close()


def _wait_healthy(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the engine did not become healthy (exit code {process.poll()})")
