"""A Redis and extractors as processes of their own, measured from outside."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import redis
from redis.exceptions import RedisError

from afterturn_cli.ports import free_ports
from bench.waiting import wait_until

READY_S = 120.0


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of an empty server on a free port of the loopback.

    Raises:
        RuntimeError: there is none on this machine.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("there is no redis-server on this machine")
    (port,) = free_ports(1)
    options = ("--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no")
    with _process([program, *options, "--dir", str(folder)], {}, folder / "redis.log"):
        url = f"redis://127.0.0.1:{port}/0"
        wait_until(lambda: _answers(url), "Redis answers", patience_s=READY_S)
        yield url


@contextmanager
def extractors(count: int, folder: Path, environment: Mapping[str, str]) -> Iterator[list[psutil.Process]]:
    """So many extractors that take messages."""
    with ExitStack() as running:
        ready = [folder / f"extractor-{number}.ready" for number in range(count)]
        processes = []
        for path in ready:
            path.unlink(missing_ok=True)
            command = [sys.executable, "-m", "afterturn_extractor", "--ready-file", str(path)]
            processes.append(running.enter_context(_process(command, environment, path.with_suffix(".log"))))
        wait_until(lambda: all(path.exists() for path in ready), "extractors work", patience_s=READY_S)
        yield processes


def processor_s(processes: Sequence[psutil.Process]) -> float:
    """Processor seconds that these have used so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def _process(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[psutil.Process]:
    with log.open("ab") as output:
        running = subprocess.Popen(
            list(command), env={**os.environ, **environment}, stdout=output, stderr=output
        )
    try:
        yield psutil.Process(running.pid)
    finally:
        running.terminate()
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except RedisError:
        return False
