"""One child process of the supervisor: its own session, its own log, ended by its own id."""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from afterturn_core.guard import guarded

LOG_LIMIT_BYTES = 10 * 1024 * 1024  # beyond this a log is set aside at the next start
_POLL_S = 0.05


@dataclass(frozen=True)
class Service:
    """What to run and how to see that it works. `is_ready` must answer within about a second, `is_alive`
    within about five: it says whether the process still does anything, whatever it leans on."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    is_ready: Callable[[], bool]
    stop_s: float = 10.0
    # Services that others lean on while they stop are stopped last.
    stops_last: bool = False
    # Written by a service that nobody can ask over the network once it works.
    ready_file: Path | None = None
    # `None`: only its end is noticed.
    is_alive: Callable[[], bool] | None = None


class Child:
    """A running service. Not safe for use by several threads; `start` decides whom it dies with."""

    def __init__(self, service: Service, log_folder: Path) -> None:
        self.service = service
        self.log_path = log_folder / f"{service.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0  # where this run's output begins

    @property
    def pid(self) -> int | None:
        """The process id, `None` before the start and after the end."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Run the command in a session of its own, with its output in the log."""
        _set_aside(self.log_path)
        if self.service.ready_file is not None:
            self.service.ready_file.parent.mkdir(parents=True, exist_ok=True)
            self.service.ready_file.unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                guarded(self.service.command),
                env=dict(self.service.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """The code of a child that has ended (negative: the signal), `None` while it runs.

        Whatever it left in its process group is killed before its id is given back.
        """
        process = self._process
        if process is None:
            raise RuntimeError(f"{self.service.name} was not started")
        if process.returncode is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, process.pid, flags) is None:
                return None
            self._kill_group(process.pid)
            process.wait()
        self._process = None
        return process.returncode

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the child and all it started; `exit_code` tells when it is gone."""
        if self._process is not None and self._process.returncode is None:
            self._kill_group(self._process.pid)

    def end(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic seconds), then kill; returns whether it went by itself."""
        if self._process is None:
            return True
        while time.monotonic() < deadline:
            if self.exit_code() is not None:
                return True
            time.sleep(_POLL_S)
        self._kill_group(self._process.pid)
        self._process.wait()
        self._process = None
        return False

    def tail(self, lines: int = 20) -> str:
        """The last lines that this run wrote to the log."""
        if not self.log_path.is_file():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(max(self._log_start, self.log_path.stat().st_size - 64 * 1024))
            text = log.read().decode(errors="replace")
        return "\n".join(deque(text.splitlines(), maxlen=lines))

    def _kill_group(self, pid: int) -> None:
        # The child leads its own session, so the group's id is its own and nobody else's.
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _set_aside(log: Path) -> None:
    if log.is_file() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
