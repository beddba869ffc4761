"""`python -m afterturn_server` as a process, and what importing it costs."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx

from .conftest import free_port

PATIENCE_S = 60.0


def run(tmp_path, **variables):
    environment = {
        "PATH": os.environ["PATH"],
        "AFTERTURN_DATA_DIR": str(tmp_path / "data"),
        "AFTERTURN_ENGINE_URL": "http://127.0.0.1:1",
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "afterturn_server"],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    _, told = process.communicate(timeout=PATIENCE_S)
    return process.returncode, told


def test_a_wrong_setting_stops_it_with_the_variables_name(tmp_path):
    code, told = ended(run(tmp_path, AFTERTURN_ADMIN_KEY="short"))
    assert code == 2
    assert "AFTERTURN_ADMIN_KEY" in told
    assert "Traceback" not in told


def test_a_port_in_use_and_an_empty_database_stop_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = ended(run(tmp_path, AFTERTURN_PORT=str(taken.getsockname()[1])))
    assert code == 2
    assert "AFTERTURN_PORT" in told
    code, told = ended(run(tmp_path, AFTERTURN_PORT=str(free_port())))
    assert code == 2
    assert "afterturn migrate" in told
    assert "Traceback" not in told


def test_it_serves_and_stops_on_a_signal(tmp_path, template):
    os.symlink(template, tmp_path / "data")
    port = free_port()
    process = run(tmp_path, AFTERTURN_PORT=str(port), AFTERTURN_GATEWAY_CORE="last")
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, verify=False)
                break
            except httpx.TransportError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
        assert answer.json() == {"ok": True, "accepting": True}
        threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
        assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {
            frozenset({max(os.sched_getaffinity(0))})
        }
        process.send_signal(signal.SIGTERM)
        code, told = ended(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert code == 0
    assert "at-" not in told


def test_importing_the_gateway_stays_light():
    code = (
        "import sys, afterturn_server.app, afterturn_server.__main__; "
        "print([m for m in ('torch', 'transformers', 'nicegui', 'peft') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
