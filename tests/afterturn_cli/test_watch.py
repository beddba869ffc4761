"""Services under a watch: started, seen ready, started again, stopped without leaving anything behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from afterturn_cli.child import LOG_LIMIT_BYTES, Child, Service
from afterturn_cli.services import Beats
from afterturn_cli.watch import HUNG_CHECKS, Notice, ServiceFailed, Watch
from afterturn_core.errors import SettingsError
from afterturn_core.pulse import BEAT_S, Pulse

PATIENCE_S = 20.0

SERVE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("serving", flush=True)
pathlib.Path(sys.argv[1]).touch()
while True:
    time.sleep(1)
"""
DEAF = SERVE.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
PARENT = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
while True:
    time.sleep(1)
"""


def service(folder: Path, script: str, *, name: str = "one", stop_s: float = 10.0) -> Service:
    ready = folder / f"{name}.ready"
    command = (sys.executable, "-c", script, str(ready))
    return Service(name, command, os.environ, ready.is_file, stop_s, ready_file=ready)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def test_a_killed_service_is_started_again_and_reported(tmp_path: Path) -> None:
    notices: list[Notice] = []
    watch = Watch([service(tmp_path, SERVE), service(tmp_path, SERVE, name="two")], tmp_path, notices.append)
    watch.start()
    try:
        watch.wait_ready(PATIENCE_S)
        first = watch.pids
        os.kill(first["one"], signal.SIGKILL)
        wait_until(lambda: watch.restart_counts["one"] == 1)
        watch.wait_ready(PATIENCE_S)
        again = watch.pids
    finally:
        watch.stop()
    assert again["one"] != first["one"]
    assert again["two"] == first["two"]
    ended = [notice.text for notice in notices if notice.kind == "ended"]
    assert ended == ["killed by SIGKILL; starting it again in 0.5 s\nserving"]
    assert not any(psutil.pid_exists(pid) for pid in (*first.values(), *again.values()))


def test_pauses_double(tmp_path: Path) -> None:
    notices: list[Notice] = []
    watch = Watch([service(tmp_path, SERVE)], tmp_path, notices.append)
    watch.start()
    try:
        for restarts in (1, 2):
            watch.wait_ready(PATIENCE_S)
            os.kill(watch.pids["one"], signal.SIGKILL)
            wait_until(lambda restarts=restarts: watch.restart_counts["one"] == restarts)
    finally:
        watch.stop()
    pauses = [notice.text.splitlines()[0] for notice in notices if notice.kind == "ended"]
    assert [text.split(" in ")[1] for text in pauses] == ["0.5 s", "1 s"]


def test_a_service_that_hangs_is_killed_said_so_and_started_again(tmp_path: Path) -> None:
    """Dead is noticed by the kernel, hung only by asking."""
    answering = threading.Event()
    answering.set()
    notices: list[Notice] = []
    one = replace(service(tmp_path, SERVE), is_alive=answering.is_set)
    watch = Watch([one], tmp_path, notices.append, check_every_s=0.1)
    watch.start()
    try:
        watch.wait_ready(PATIENCE_S)
        first = watch.pids["one"]
        answering.clear()
        wait_until(lambda: any(notice.kind == "killed" for notice in notices))
        answering.set()
        wait_until(lambda: watch.restart_counts["one"] == 1)
        watch.wait_ready(PATIENCE_S)
        assert watch.pids["one"] != first
    finally:
        watch.stop()
    told = [notice.text.splitlines()[0] for notice in notices if notice.kind in ("killed", "ended")]
    assert told == [
        f"has not answered for {HUNG_CHECKS * 0.1:g} s; killing it",
        "killed by SIGKILL; starting it again in 0.5 s",
    ]


def test_a_service_that_misses_a_few_checks_is_left_alone(tmp_path: Path) -> None:
    asked = 0

    def now_and_then() -> bool:
        nonlocal asked
        asked += 1
        return asked % (HUNG_CHECKS - 1) == 0

    one = replace(service(tmp_path, SERVE), is_alive=now_and_then)
    watch = Watch([one], tmp_path, lambda notice: None, check_every_s=0.0)
    watch.start()
    try:
        watch.wait_ready(PATIENCE_S)
        wait_until(lambda: asked > 5 * HUNG_CHECKS)
        assert watch.restart_counts == {"one": 0}
    finally:
        watch.stop()


def test_a_pulse_beats_while_its_process_runs(tmp_path: Path) -> None:
    file = tmp_path / "run" / "one.ready"
    beats = Beats(file)
    assert not beats()
    pulse = Pulse(file)
    pulse.start()
    pulse.start()  # as when the broker came back
    assert beats()
    wait_until(beats)  # touched again by itself
    pulse.stop()


def test_a_pulse_goes_on_after_its_file_could_not_be_touched(tmp_path: Path) -> None:
    file = tmp_path / "run" / "one.ready"
    pulse = Pulse(file)
    pulse.start()
    file.unlink()
    file.parent.rmdir()
    time.sleep(1.5 * BEAT_S)  # one beat fails meanwhile, and nothing shows it
    file.parent.mkdir()
    wait_until(file.exists)
    pulse.stop()


def test_exit_code_2_before_it_was_ready_is_final(tmp_path: Path) -> None:
    script = "import sys; print('AFTERTURN_MODEL: no such folder'); sys.exit(2)"
    watch = Watch([service(tmp_path, script)], tmp_path, lambda notice: None)
    watch.start()
    try:
        with pytest.raises(SettingsError, match="one refused its settings:\nAFTERTURN_MODEL: no such folder"):
            watch.wait_ready(PATIENCE_S)
    finally:
        watch.stop()
    assert watch.restart_counts == {"one": 0}


def test_a_service_that_never_comes_up_is_given_up_with_its_log(tmp_path: Path) -> None:
    script = "import sys; print('out of memory'); sys.exit(1)"
    watch = Watch([service(tmp_path, script)], tmp_path, lambda notice: None)
    watch.start()
    try:
        with pytest.raises(
            ServiceFailed, match=r"ended 3 times before it was ready, exit code 1:\n.*out of memory"
        ):
            watch.wait_ready(PATIENCE_S)
    finally:
        watch.stop()


def test_a_service_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    notices: list[Notice] = []
    watch = Watch([service(tmp_path, DEAF, stop_s=0.3)], tmp_path, notices.append)
    watch.start()
    watch.wait_ready(PATIENCE_S)
    (pid,) = watch.pids.values()
    watch.stop()
    assert not psutil.pid_exists(pid)
    assert notices[-1] == Notice("one", "killed", "did not stop within 0.3 s")


def test_what_a_killed_service_started_goes_with_it(tmp_path: Path) -> None:
    ready = tmp_path / "one.ready"
    child = Child(service(tmp_path, PARENT), tmp_path)
    child.start()
    wait_until(lambda: ready.is_file() and ready.read_text() != "")
    grandchild = psutil.Process(int(ready.read_text()))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: child.exit_code() == -signal.SIGKILL)
    wait_until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_children_of_a_killed_supervisor_die(tmp_path: Path) -> None:
    supervisor = f"""
import sys, time
from pathlib import Path
from afterturn_cli.child import Service
from afterturn_cli.watch import Watch
folder = Path({str(tmp_path)!r})
ready = folder / "one.ready"
one = Service("one", (sys.executable, "-c", {SERVE!r}, str(ready)), {{}}, ready.is_file)
watch = Watch([one], folder, lambda notice: None)
watch.start()
watch.wait_ready(20)
(folder / "pid").write_text(str(watch.pids["one"]))
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", supervisor])
    pid_file = tmp_path / "pid"
    try:
        wait_until(lambda: pid_file.is_file() and pid_file.read_text() != "")
    finally:
        process.kill()
        process.wait()
    pid = int(pid_file.read_text())
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_large_log_is_set_aside_at_the_next_start(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_bytes(b"x" * (LOG_LIMIT_BYTES + 1))
    child = Child(service(tmp_path, "print('fresh')"), tmp_path)
    child.start()
    wait_until(lambda: child.exit_code() == 0)
    assert log.read_text() == "fresh\n"
    assert (tmp_path / "one.log.1").stat().st_size == LOG_LIMIT_BYTES + 1


def test_only_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    child = Child(service(tmp_path, "for n in range(100): print(n)"), tmp_path)
    child.start()
    wait_until(lambda: child.exit_code() == 0)
    assert child.tail(3) == "97\n98\n99"


def test_the_watch_stops_while_a_service_still_starts(tmp_path: Path) -> None:
    never = Service("one", (sys.executable, "-c", SERVE, str(tmp_path / "x")), os.environ, lambda: False)
    watch = Watch([never], tmp_path, lambda notice: None)
    watch.start()
    wait_until(lambda: (tmp_path / "x").is_file())
    (pid,) = watch.pids.values()
    stopping = threading.Thread(target=watch.stop)
    stopping.start()
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert not psutil.pid_exists(pid)
