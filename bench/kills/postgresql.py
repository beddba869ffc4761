"""A throw-away PostgreSQL whose postmaster may be killed, started again as an init system would."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from afterturn_cli.ports import free_ports

PATIENCE_S = 60.0


class PostgresqlServer:
    """One server on loopback, with its data in a folder of its own that goes when it is stopped."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="afterturn-postgresql-"))
        self._data = self._folder / "data"
        (self._port,) = free_ports(1)
        programs = _programs()
        if programs is None:
            raise RuntimeError("there is no PostgreSQL server on this machine")
        self._bin = programs

    @property
    def url(self) -> str:
        """The URL of its one database."""
        return f"postgresql+psycopg://afterturn@127.0.0.1:{self._port}/afterturn"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])

    def create(self) -> None:
        """Make the cluster and its database, and start."""
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres")
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "afterturn", "-E", "UTF8")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self._port), "-U", "afterturn", "afterturn")

    def start(self) -> None:
        """Start, and start again while what the last postmaster left still holds its memory."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        log = self._folder / "server.log"
        until_it_starts = Retrying(
            retry=retry_if_exception_type(subprocess.CalledProcessError),
            stop=stop_after_delay(PATIENCE_S),
            wait=wait_fixed(0.2),
            reraise=True,
        )
        try:
            until_it_starts(
                self._run, "pg_ctl", "-D", str(self._data), "-w", "-l", str(log), "-o", options, "start"
            )
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"PostgreSQL does not start:\n{log.read_text()[-2000:]}") from error

    def kill(self) -> int:
        """`kill -9` the postmaster; returns the id it had."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self) -> None:
        """End it for good."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        # The server refuses to run as root.
        user = ("runuser", "-u", "postgres", "--") if os.getuid() == 0 else ()
        subprocess.run(
            (*user, str(self._bin / program), *arguments),
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            text=True,
        )


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    if found:
        return found[-1].parent
    return None if on_path is None else Path(on_path).parent
