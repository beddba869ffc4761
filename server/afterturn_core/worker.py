"""One Celery worker process, with the choices that all of ours share."""

import os
import socket
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from celery import Celery
from celery.exceptions import SecurityWarning

from .pulse import Pulse
from .queues import Delivery, check_pool
from .time_limit import TimeLimit, end_process


def run_worker(
    app: Celery,
    queues: Sequence[str],
    *,
    pool: str,
    concurrency: int,
    delivery: Delivery,
    ready_file: Path | None,
) -> int:
    """Work until SIGTERM (finish what runs, give back what waits) or SIGQUIT; returns the exit code.

    A broker that cannot be reached is waited for. `ready_file` is made once the worker takes messages,
    for a supervisor to see. A task that runs longer than the limit of `delivery` ends the process.

    Raises:
        SettingsError: this pool cannot work.
    """
    check_pool(pool, sys.modules)
    # Celery warns root about pickled messages; ours are JSON, and in a container root is usual.
    warnings.filterwarnings("ignore", category=SecurityWarning)

    pulse = None if ready_file is None else Pulse(ready_file)

    def ready(_consumer: object) -> None:
        if pulse is not None:
            pulse.start()

    worker = app.Worker(
        pool=pool,
        concurrency=concurrency,
        queues=list(queues),
        hostname=f"{queues[0]}.{os.getpid()}@{socket.gethostname()}",
        loglevel="WARNING",
        ready_callback=ready,
        quiet=True,
        # Workers that watch each other send a message a second for nothing we use.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    with TimeLimit(delivery.task_limit_s, end_process):
        worker.start()
    if pulse is not None:
        pulse.stop()
    return int(worker.exitcode or 0)
