"""What is killed: a random one of the processes that run at that moment."""

import os
import random
import signal
import time
from collections.abc import Sequence

import psutil

from afterturn_cli.supervisor import Stack
from bench.kills.postgresql import PostgresqlServer

SERVICES = ("gateway", "engine", "extractor", "trainer", "broker")
ROUND, POSTGRESQL = "round", "postgresql"
AWAY_S = (0.3, 1.5)  # how long the init system takes to bring PostgreSQL back


def round_pid(stack: Stack) -> int | None:
    """The process of the round that runs now, if one does."""
    trainer = stack.pids.get("trainer")
    if trainer is None:
        return None
    try:
        for child in psutil.Process(trainer).children(recursive=True):
            if "round" in child.cmdline():
                return child.pid
    except psutil.NoSuchProcess:
        return None
    return None


def strike(stack: Stack, server: PostgresqlServer | None, chance: random.Random) -> str | None:
    """Kill one process; returns which, None if it had ended just before."""
    pids: dict[str, int] = {name: pid for name, pid in stack.pids.items() if name in SERVICES}
    running = round_pid(stack)
    if running is not None:
        pids[ROUND] = running
    names: Sequence[str] = sorted(pids)
    target = chance.choice([*names, POSTGRESQL] if server is not None else names)
    if target == POSTGRESQL:
        assert server is not None
        server.kill()
        time.sleep(chance.uniform(*AWAY_S))  # an outage of that length is the point
        server.start()
        return target
    try:
        os.kill(pids[target], signal.SIGKILL)
    except ProcessLookupError:
        return None
    return target
