"""The process itself: how it refuses to start, and that it ends when told to."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from afterturn_engine.__main__ import EXIT_CANNOT_START, main

PATIENCE_S = 120.0


def test_a_port_in_use_is_told_before_any_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["--model", "nowhere", "--adapter-root", str(tmp_path), "--port", str(port)]
        assert main(arguments) == EXIT_CANNOT_START
    assert f"port {port} on 127.0.0.1 is already in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "engine"])
def test_b27_without_a_key_only_this_machine_is_listened_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    """B27: whoever reaches the port can load and unload adapters."""
    arguments = ["--model", "nowhere", "--adapter-root", str(tmp_path), "--port", "0", "--host", host]
    assert main(arguments) == EXIT_CANNOT_START
    assert "give --api-key" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    arguments[1] = str(tmp_path / "empty")
    assert main([*arguments[:-1], "0.0.0.0", "--api-key", "k"]) == EXIT_CANNOT_START
    assert "has no config.json" in capsys.readouterr().err


def test_a_folder_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    arguments = ["--model", str(tmp_path / "empty"), "--adapter-root", str(tmp_path), "--port", "0"]
    assert main(arguments) == EXIT_CANNOT_START
    assert "has no config.json" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [["--threads", "0"], ["--max-sequences", "x"], ["--port"], ["--unknown"]])
def test_wrong_usage(tmp_path: Path, extra: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--model", "x", "--adapter-root", str(tmp_path), *extra])
    assert stop.value.code == 2


def test_it_serves_and_ends_on_sigterm(model_folder: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--model", str(model_folder), "--adapter-root", str(tmp_path / "new"), "--port", str(port)]
    command = [
        sys.executable,
        "-m",
        "afterturn_engine",
        *arguments,
        "--threads",
        "1",
        "--served-name",
        "tiny",
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                assert process.poll() is None
                assert time.monotonic() < deadline
                try:
                    models = http.get("/v1/models").json()
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            assert [card["id"] for card in models["data"]] == ["tiny"]
            body = {"model": "tiny", "prompt": "hello", "max_tokens": 3}
            assert http.post("/v1/completions", json=body).json()["usage"]["completion_tokens"] == 3
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


def test_importing_the_package_is_light() -> None:
    check = "import sys, afterturn_engine; print({'torch', 'transformers', 'fastapi'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
