"""A tiny model loaded once, and engines around it: in-process parts, and a real server on loopback."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import torch
import uvicorn
from tests.afterturn_engine.served import Served
from tests.tiny_model import build_tiny_adapter, build_tiny_model

from afterturn_engine.adapters import Adapters
from afterturn_engine.engine import Engine
from afterturn_engine.grammar import Grammars
from afterturn_engine.model import Model, load_model
from afterturn_engine.scheduler import Limits, Scheduler
from afterturn_engine.server import create_app
from afterturn_engine.template import Template


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return build_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def adapter_root(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Holds the sound adapters a@v1 and b@v1."""
    root = tmp_path_factory.mktemp("adapters")
    build_tiny_adapter(root, model_folder, "a@v1", scale=0.3, seed=1)
    build_tiny_adapter(root, model_folder, "b@v1", scale=0.3, seed=2)
    return root


@pytest.fixture(scope="session")
def model(model_folder: Path) -> Model:
    return load_model(str(model_folder), None)


@pytest.fixture(scope="session")
def grammars(model: Model) -> Grammars:
    return Grammars(model.tokenizer, model.vocabulary_size, model.eos_token_ids)


@pytest.fixture
def adapters(model: Model, adapter_root: Path) -> Adapters:
    return Adapters(adapter_root, "base", model.targets, model.device, model.dtype)


@pytest.fixture
def scheduler(model: Model) -> Iterator[Scheduler]:
    made = Scheduler(model, Limits(sequences=8, queue=16))
    made.start()
    yield made
    made.close()


@pytest.fixture
def serve(model: Model, adapters: Adapters, grammars: Grammars) -> Iterator[Callable[..., Served]]:
    """Start a real server; called again, another one."""
    stops: list[Callable[[], None]] = []

    def start(limits: Limits | None = None, api_key: str | None = None) -> Served:
        scheduler = Scheduler(model, limits or Limits())
        engine = Engine("base", model, Template(model.tokenizer), adapters, scheduler, grammars)
        scheduler.start()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(engine, api_key), log_level="warning", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        http = httpx.Client(
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=120, trust_env=False
        )

        def stop() -> None:
            http.close()
            server.should_exit = True
            thread.join()
            scheduler.close()

        stops.append(stop)
        served = Served(http, engine)
        served.wait_until_healthy()
        return served

    yield start
    for stop in stops:
        stop()
