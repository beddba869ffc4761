"""Real vLLM on the CPU, beside us: start it, wait until it serves, stop it by its process id.

    python bench/vllm/serve.py --model data/models/SmolLM2-135M-Instruct

prints `vLLM ready: URL` and serves until interrupted. It runs in the environment
that `bench/vllm/setup.sh` makes; this file itself needs nothing installed.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Compiling the kernels on a cold, busy two-core machine takes minutes; a start that works takes one.
READY_TIMEOUT_S = 600.0
# Time for requests in flight to be given up and for the engine's own child to end.
STOP_TIMEOUT_S = 30.0


class ServeError(Exception):
    """vLLM could not be started; the message has the end of its log."""


@dataclass(frozen=True)
class Served:
    """A vLLM that answers at `url`; `ready_s` is how long it took to."""

    url: str
    process: "subprocess.Popen[bytes]"
    ready_s: float
    log: Path


def vllm_python() -> Path:
    """The interpreter of the vLLM environment; `VLLM_VENV` overrides where that is."""
    return Path(os.environ.get("VLLM_VENV", ROOT / ".venv-vllm")) / "bin" / "python"


def command(model: Path, port: int, max_model_len: int | None, *, counted: bool = False) -> list[str]:
    """The command line that makes vLLM speak the dialect the platform relies on.

    Log-probabilities are raw (temperature 1, before penalties and top-p), adapters
    load at run time, and four of them may share a batch. `counted` makes `/metrics` say
    how many requests are running, which is otherwise left out.
    """
    line = [
        *(str(vllm_python()), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", "base"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "float32", "--enforce-eager", "--logprobs-mode", "raw_logprobs"),
        *("--enable-lora", "--max-lora-rank", "16", "--max-loras", "4", "--max-cpu-loras", "16"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *("--uvicorn-log-level", "warning"),
    ]
    if not counted:
        line.append("--disable-log-stats")
    return line if max_model_len is None else [*line, "--max-model-len", str(max_model_len)]


def environment() -> dict[str, str]:
    """Ours, with run-time adapters allowed, 2 GiB of KV cache, and nothing sent anywhere.

    Its threads sleep while they wait: spinning ones starve every other process of a small machine,
    so much that a client's time-out of a third of a second fires after six.
    """
    return {
        "OMP_WAIT_POLICY": "PASSIVE",
        **os.environ,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(
    model: Path,
    log: Path,
    *,
    port: int | None = None,
    max_model_len: int | None = None,
    counted: bool = False,
) -> Iterator[Served]:
    """A vLLM with `model`, its output in `log`; stopped on leaving. `counted`: see `command`.

    Raises ServeError if none starts.
    """
    if not vllm_python().exists():
        raise ServeError(f"no vLLM at {vllm_python()}: run bench/vllm/setup.sh first")
    port = port or free_port()
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(model, port, max_model_len, counted=counted),
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_ready(process, url, started + READY_TIMEOUT_S, log)
        yield Served(url, process, time.monotonic() - started, log)
    finally:
        _stop(process)


def _wait_ready(process: subprocess.Popen[bytes], url: str, deadline: float, log: Path) -> None:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServeError(f"vLLM ended with {process.returncode}:\n{_tail(log)}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)  # between two looks
    raise ServeError(f"vLLM was not ready after {READY_TIMEOUT_S:.0f} s:\n{_tail(log)}")


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # vLLM's engine is a child of its server: a session of its own (see Popen above) finds it even
    # if the server died without ending it.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _watch(served: Served) -> None:
    """Return when whoever started us is gone: nobody would stop vLLM then. Raises ServeError if it ends."""
    parent = os.getppid()
    while os.getppid() == parent:
        if served.process.poll() is not None:
            raise ServeError(f"vLLM ended with {served.process.returncode}:\n{_tail(served.log)}")
        time.sleep(1)  # between two looks


def _interrupt(signum: int, _: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "data/models/SmolLM2-135M-Instruct")
    parser.add_argument("--port", type=int, help="default: a free one")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--log", type=Path, default=Path("vllm.log"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with serving(asked.model, asked.log, port=asked.port, max_model_len=asked.max_model_len) as served:
            pid = served.process.pid
            print(f"vLLM ready: {served.url} (pid {pid}, after {served.ready_s:.0f} s)", flush=True)
            _watch(served)
    except ServeError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
