"""Holding a round: a heartbeat in a thread, what it reports, and the reasons to stop at once."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import structlog
from sqlalchemy.exc import OperationalError

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import LostLease
from afterturn_core.lifecycle import Lease

log = structlog.get_logger()
Phase = Literal["training", "gating"]
BEATS_PER_LEASE = 4


class Cancelled(Exception):
    """Somebody asked for the round to be cancelled."""


class Interrupted(Exception):
    """This process was asked to go, or whoever started it is gone; another worker takes the round up."""


class Heartbeat:
    """Keeps a lease alive and says when to stop; `check` is called between any two pieces of work."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self._parent_pid = os.getppid()
        self._over = threading.Event()
        self._stop: Exception | None = None
        self._phase: Phase = "training"
        self._progress = 0.0
        self._metrics: dict[str, object] | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self.beat()  # a cancel request may have waited for a holder
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """No beat may follow the round's end: it would look like a lost lease."""
        self._over.set()
        self._thread.join()

    def report(
        self,
        progress: float,
        metrics: dict[str, object] | None = None,
        phase: Phase | None = None,
    ) -> None:
        """What the next beat writes; raises what `check` raises. `progress` is a share, 0 to 1. A new phase
        is written at once, since people and tests wait for it."""
        self._progress = progress
        self._metrics = metrics if metrics is not None else self._metrics
        if phase is not None:
            self._phase = phase
            self.beat()
        self.check()

    def check(self) -> None:
        """Raise LostLease, Cancelled or Interrupted once there is a reason to stop."""
        if self._stop is not None:
            raise self._stop

    def beat(self) -> None:
        """Beat here and now, so that the next `check` knows of every request made until now.

        Raises:
            LostLease: another worker holds the round.
        """
        with self._database.write() as session:
            if lifecycle.heartbeat(
                session, self._lease, state=self._phase, progress=self._progress, metrics=self._metrics
            ):
                self._stop = self._stop or Cancelled("cancelled on request")

    def interrupt(self, reason: str) -> None:
        """Ask the work to stop at its next `check`."""
        self._stop = self._stop or Interrupted(reason)

    def _run(self) -> None:
        every = self._lease.seconds / BEATS_PER_LEASE
        last = time.monotonic()
        while not self._over.wait(every) and self._stop is None:
            try:
                self.beat()
            except LostLease as error:
                self._stop = error
            except OperationalError as error:
                # A database that is away for less than the lease costs nothing.
                log.warning("heartbeat failed", round=self._lease.round_id, error=str(error.orig))
                if time.monotonic() - last > self._lease.seconds:
                    self._stop = LostLease("the database did not answer for as long as the lease lasts")
            else:
                last = time.monotonic()
            if os.getppid() != self._parent_pid:
                self.interrupt("the worker that started this round is gone")


@contextmanager
def stopping_on_signals(interrupt: Callable[[str], None]) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into an orderly stop; only the main thread can, elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        interrupt(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
