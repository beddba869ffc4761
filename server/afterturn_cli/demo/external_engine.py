"""The demo on an engine of its own: real vLLM on the CPU, from its separate environment."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from afterturn_core.errors import SettingsError

from ..ports import free_ports

READY_S = 300.0  # vLLM loads, profiles and warms up for about a minute on two cores


@contextmanager
def external_engine(engine: str, model: str, adapter_root: Path) -> Iterator[str]:
    """The URL of the engine, empty for the embedded one.

    Raises:
        SettingsError: no such engine, or vLLM's environment is not there.
    """
    if engine == "embedded":
        yield ""
        return
    if engine != "vllm":
        raise SettingsError(f"--engine {engine}: embedded or vllm")
    launcher = Path(__file__).resolve().parents[3] / "bench" / "vllm" / "serve.py"
    if not launcher.is_file():
        raise SettingsError("--engine vllm needs a checkout of the repository: run `make vllm-setup` in it")
    (port,) = free_ports(1)
    adapter_root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(launcher), "--model", model, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            _wait(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SettingsError("vLLM did not start: run `make vllm-setup` and try again")
        if _healthy(url):
            return
        time.sleep(1)
    raise SettingsError(f"vLLM was not ready after {READY_S:.0f} s")


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).is_success
    except httpx.TransportError:
        return False
