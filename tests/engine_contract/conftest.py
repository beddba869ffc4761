"""The same tests against three engines: the scripted fake, the embedded engine, real vLLM on the CPU."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from bench.vllm.serve import free_port, serving
from tests.engine_contract.engine import TIMEOUT_S, Engine
from tests.tiny_model import CONTEXT_LENGTH, build_tiny_model

from afterturn_engine.scripted import Reply, Script, ToolCall

READY_TIMEOUT_S = 300.0
VLLM = pytest.param("vllm", marks=pytest.mark.vllm)


class Engines:
    """Started on first use, one of each kind a session."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._running: dict[str, Engine] = {}

    def get(self, kind: str) -> Engine:
        if kind not in self._running:
            starters = {"scripted": _scripted, "embedded": _embedded, "vllm": _vllm}
            folder = self._folder / kind
            (folder / "adapters").mkdir(parents=True)
            self._running[kind] = self._stack.enter_context(starters[kind](folder))
        return self._running[kind]


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with ExitStack() as stack:
        yield Engines(tmp_path_factory.mktemp("engines"), stack)


@pytest.fixture(params=["scripted", "embedded", VLLM])
def engine(request: pytest.FixtureRequest, engines: Engines) -> Engine:
    """Any engine: what is tested is the form of the dialect."""
    return engines.get(request.param)


@pytest.fixture(params=["embedded", VLLM])
def weighted(request: pytest.FixtureRequest, engines: Engines) -> Engine:
    """An engine with weights: what is tested are numbers."""
    return engines.get(request.param)


@pytest.fixture(params=["embedded"])
def embedded(request: pytest.FixtureRequest, engines: Engines) -> Engine:
    """Only ours: what is tested is stricter than vLLM."""
    return engines.get(request.param)


@pytest.fixture(params=["scripted"])
def scripted(request: pytest.FixtureRequest, engines: Engines) -> Engine:
    """Only the fake: what is tested needs a look inside."""
    return engines.get(request.param)


@contextmanager
def _scripted(folder: Path) -> Iterator[Engine]:
    script = folder / "script.json"
    sail = ToolCall(name="sail", arguments='{"to": "sea"}')
    replies = (Reply(when="slow", piece_ms=50), Reply(when="call a tool", tool_calls=(sail,)))
    script.write_text(Script(context_length=CONTEXT_LENGTH, replies=replies).model_dump_json())
    with _process("afterturn_engine.scripted", "--script", str(script)) as http:
        yield Engine("scripted", http, folder / "adapters")


@contextmanager
def _embedded(folder: Path) -> Iterator[Engine]:
    model, adapters = build_tiny_model(folder / "model"), folder / "adapters"
    with _process("afterturn_engine", "--model", str(model), "--adapter-root", str(adapters)) as http:
        yield Engine("embedded", http, adapters, model)


@contextmanager
def _vllm(folder: Path) -> Iterator[Engine]:
    model = build_tiny_model(folder / "model")
    with serving(model, folder / "vllm.log") as served, _client(served.url) as http:
        yield Engine("vllm", http, folder / "adapters", model)


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[httpx.Client]:
    """`python -m module` on a free port, until it is healthy; stopped by its process id."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", module, "--port", str(port), *arguments])
    try:
        with _client(f"http://127.0.0.1:{port}") as http:
            _wait_healthy(http, process)
            yield http
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False)


def _wait_healthy(http: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if http.get("/health").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the engine did not become healthy (exit code {process.poll()})")
