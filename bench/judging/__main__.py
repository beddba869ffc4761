"""Observed turns a second that extractor workers judge by `rules`, over a real Redis.

    python -m bench.judging [--turns 10000] [--repetitions 3] [--database sqlite|postgresql]

One extractor on SQLite, one on PostgreSQL and two on PostgreSQL, one arm after the other and all of them
again, so that what else the machine does falls on each. A run begins with every turn observed and its message
in the queue, as gateways leave it, and ends when none waits. The time is that of the whole run, whatever the
number of workers; so is the share of the machine that others used meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil
import redis

from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.queues import EXTRACT_QUEUE
from bench.judging.turns import ObservedTurns, observed_turns
from bench.judging.workers import extractors, processor_s, redis_server
from bench.kills.postgresql import PostgresqlServer
from bench.machine import write_result
from bench.waiting import wait_until

ARMS = (("sqlite", 1), ("postgresql", 1), ("postgresql", 2))
PATIENCE_S = 900.0
PARKED = "parked"


@dataclass(frozen=True)
class Run:
    """One run: judged turns a second in all; `worker_ms_a_turn` and `server_ms_a_turn` are processor time of
    the extractors and of PostgreSQL; `load` is the machine's average of the last minute at the end."""

    turns_per_s: float
    seconds: float
    worker_ms_a_turn: float
    server_ms_a_turn: float
    load: float
    others_share: float
    outcome: dict[str, int]


def measure(turns: ObservedTurns, workers: int, folder: Path, server: PostgresqlServer | None) -> Run:
    """Judge every turn once.

    Raises:
        RuntimeError: a turn was judged twice or not at all.
        TimeoutError: they were not judged within a quarter of an hour.
    """
    with redis_server(folder) as url:
        environment = {
            "AFTERTURN_DATA_DIR": str(folder),
            "AFTERTURN_DATABASE_URL": turns.database.url,
            "AFTERTURN_BROKER_URL": url,
            "AFTERTURN_JUDGE": "rules",
            "AFTERTURN_LOG_LEVEL": "warning",
        }
        wake = Wake(url)
        for turn_id in turns.ids:
            if not wake.judge(turn_id):
                raise RuntimeError("Redis took no message")
        with redis.Redis.from_url(url) as client:
            client.rename(EXTRACT_QUEUE, PARKED)  # until everybody is there
            with extractors(workers, folder, environment) as processes:
                turns.wait()
                used = _Used(processes, server)
                began = time.monotonic()
                client.rename(PARKED, EXTRACT_QUEUE)
                wait_until(lambda: turns.waiting() == 0, "every turn is judged", patience_s=PATIENCE_S)
                seconds = time.monotonic() - began
                worker_s, server_s, others = used.since()
    outcome = turns.outcome()
    if outcome["signals"] != len(turns.ids):
        raise RuntimeError(f"{len(turns.ids)} turns: {outcome}")
    return Run(
        turns_per_s=round(len(turns.ids) / seconds, 1),
        seconds=round(seconds, 2),
        worker_ms_a_turn=round(worker_s / len(turns.ids) * 1000, 3),
        server_ms_a_turn=round(server_s / len(turns.ids) * 1000, 3),
        load=round(os.getloadavg()[0], 2),
        others_share=round(others / seconds / (os.cpu_count() or 1), 2),
        outcome=outcome,
    )


class _Used:
    """Processor time of the workers, of PostgreSQL and of everybody else, from now on."""

    def __init__(self, processes: Sequence[psutil.Process], server: PostgresqlServer | None) -> None:
        self._processes = processes
        self._postmaster = None if server is None else psutil.Process(server.pid)
        self._before = self._now()

    def since(self) -> tuple[float, float, float]:
        """(workers, PostgreSQL, everybody else), seconds."""
        workers, server, busy = (now - then for now, then in zip(self._now(), self._before, strict=True))
        return workers, server, max(busy - workers - server, 0.0)

    def _now(self) -> tuple[float, float, float]:
        backends = [] if self._postmaster is None else self._postmaster.children()
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        return processor_s(self._processes), processor_s(backends), busy


def main() -> int:
    """Measure and write `bench/results/judging.json`; 0 if two workers judge half as many again as one."""
    parser = argparse.ArgumentParser(prog="python -m bench.judging", description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="only the arms on this one")
    options = parser.parse_args()
    arms = [arm for arm in ARMS if options.database in (None, arm[0])]
    runs: dict[tuple[str, int], list[Run]] = {arm: [] for arm in arms}
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-judging-")))
        servers: dict[str, PostgresqlServer] = {}
        filled: dict[str, ObservedTurns] = {}
        for kind in dict.fromkeys(kind for kind, _ in arms):
            url = f"sqlite:///{folder / 'afterturn.db'}"
            if kind == "postgresql":
                servers[kind] = PostgresqlServer()
                servers[kind].create()
                exits.callback(servers[kind].stop)
                url = servers[kind].url
            database = Database(url)
            exits.callback(database.close)
            database.migrate()
            filled[kind] = observed_turns(database, options.turns)
        for _ in range(options.repetitions):
            for kind, workers in arms:
                run = measure(filled[kind], workers, folder, servers.get(kind))
                print(f"{kind:10} {workers} worker(s): {run}", flush=True)
                runs[kind, workers].append(run)
    result, enough = _told(runs, options.turns)
    print(result.get("two_over_one"))
    print(write_result("judging", result))
    return 0 if enough else 1


def _told(runs: dict[tuple[str, int], list[Run]], turns: int) -> tuple[dict[str, object], bool]:
    told: dict[str, object] = {
        "turns": turns,
        "judge": "rules",
        "redis": version("redis"),
        "arms": [
            {
                "database": kind,
                "workers": workers,
                "turns_per_s_p50": round(median(run.turns_per_s for run in found), 1),
                "runs": [asdict(run) for run in found],
            }
            for (kind, workers), found in runs.items()
        ],
    }
    one, two = runs.get(("postgresql", 1), []), runs.get(("postgresql", 2), [])
    if not two:
        return told, True
    ratios = [b.turns_per_s / a.turns_per_s for a, b in zip(one, two, strict=True)]
    told["two_over_one"] = {"each": [round(ratio, 2) for ratio in ratios], "p50": round(median(ratios), 2)}
    return told, median(ratios) >= 1.5


if __name__ == "__main__":
    sys.exit(main())
