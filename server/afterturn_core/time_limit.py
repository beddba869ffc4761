"""A time limit for tasks that run in threads: a thread cannot be killed, so its process is.

Celery's own limits work in pools that fork, and we have none. Whoever supervises the process starts
it again, and what it had in hand comes back by the visibility time-out or the sweep.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from celery.signals import task_postrun, task_prerun
from structlog.stdlib import get_logger

EXIT_CODE: Final = 70  # what sysexits.h calls a software error
LOOKS_PER_LIMIT: Final = 20

log = get_logger(__name__)


class TimeLimit:
    """Watches the tasks of this process; calls `give_up` once when one has run for `limit_s` seconds."""

    def __init__(self, limit_s: float, give_up: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._give_up = give_up
        self._since: dict[str, tuple[float, str]] = {}  # task id → (monotonic seconds, task name)
        self._changing = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="time-limit", daemon=True)

    def __enter__(self) -> "TimeLimit":
        task_prerun.connect(self._began, weak=False)
        task_postrun.connect(self._ended, weak=False)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        task_prerun.disconnect(self._began)
        task_postrun.disconnect(self._ended)

    def _began(self, sender: object = None, task_id: str = "", **_: object) -> None:
        with self._changing:
            self._since[task_id] = (time.monotonic(), str(getattr(sender, "name", sender)))

    def _ended(self, task_id: str = "", **_: object) -> None:
        with self._changing:
            self._since.pop(task_id, None)

    def _watch(self) -> None:
        while not self._over.wait(self._limit_s / LOOKS_PER_LIMIT):
            before = time.monotonic() - self._limit_s
            with self._changing:
                late = [(task_id, name) for task_id, (since, name) in self._since.items() if since < before]
            for task_id, name in late:
                log.error("task_over_its_limit", task=name, id=task_id, limit_s=self._limit_s)
            if late:
                self._give_up()
                return


def end_process() -> None:
    """End this process without waiting for its threads, which is what they are ended for."""
    os._exit(EXIT_CODE)
