"""The scripted engine served in this process, so that tests can look at its state."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from afterturn_engine.scripted import Script, ScriptedEngine, create_app


@dataclass(frozen=True)
class Running:
    url: str
    engine: ScriptedEngine
    http: httpx.Client


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Running]]:
    """Start an engine with a script; all of them stop with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(_serving(script))


@contextmanager
def _serving(script: Script) -> Iterator[Running]:
    app = create_app(script)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
            yield Running(url, app.state.engine, http)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
