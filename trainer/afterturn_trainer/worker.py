"""The trainer's worker: takes the ids of claimed rounds and runs each in a process of its own.

It never imports torch: a round is spawned, not forked, and takes its memory with it when it ends.
The message is acknowledged at once. From then on the lease in the database is the truth: a round
whose process dies is failed by its worker, and if that died too, sent again when its lease runs out.
"""

import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Protocol

from celery import Celery
from structlog.stdlib import get_logger

from afterturn_core.broker import celery_app, refuse_unusable_broker
from afterturn_core.database import Database
from afterturn_core.guard import guarded
from afterturn_core.queues import TRAIN_QUEUE, TRAIN_ROUND, delivery_of
from afterturn_core.settings import Settings
from afterturn_core.worker import run_worker
from afterturn_trainer.round_exit import RoundExits

NICENESS = 10  # serving comes first
AT_ONCE = 1  # a second round beside it would only make both slower
ROUND = (sys.executable, "-m", "afterturn_trainer", "round")
STOP_S = 8.0  # for a round to notice SIGTERM and let go of its lease

log = get_logger(__name__)


class Exits(Protocol):
    """Knows rounds by their rows; `round_exit.RoundExits` does."""

    def is_wanted(self, round_id: str) -> bool:
        """Whether a process shall be started."""

    def ended(self, round_id: str, pid: int, code: int) -> None:
        """A process ended by itself with this exit code (negative: the signal)."""

    def killed_at_stop(self, round_id: str, pid: int) -> None:
        """A process was killed because this worker stops."""


class RoundProcesses:
    """Runs rounds, a few at once and each only once; a thread of its own starts and reaps them.

    `command` is what a round's id is appended to.
    """

    def __init__(self, command: tuple[str, ...], exits: Exits, *, at_once: int = AT_ONCE) -> None:
        self._command = command
        self._exits = exits
        self._at_once = at_once
        self._waiting: deque[str] = deque()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._ended: list[tuple[str, int]] = []
        # One thread for all: a process dies with the thread that started it.
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._thread.start()

    def take(self, round_id: str) -> bool:
        """Have a round run; false if it runs or waits here already, or we are closing."""
        with self._changed:
            if self._closing or round_id in self._waiting or round_id in self._running:
                return False
            self._waiting.append(round_id)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """Stop what runs and drop what waits; the sweep sends both again."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join()

    @property
    def ended(self) -> tuple[tuple[str, int], ...]:
        """Rounds that have ended here with their exit codes (negative: the signal), oldest first."""
        with self._changed:
            return tuple(self._ended)

    @property
    def running(self) -> dict[str, int]:
        """Process ids by round."""
        with self._changed:
            return {round_id: process.pid for round_id, process in self._running.items()}

    def _run(self) -> None:
        while not self._closing:
            self._begin_next()
            self._reap()
            with self._changed:
                if not self._closing and not self._has_room_for_more():
                    self._changed.wait(0.2 if self._running else None)
        self._stop_running()

    def _has_room_for_more(self) -> bool:
        return bool(self._waiting) and len(self._running) < self._at_once

    def _begin_next(self) -> None:
        with self._changed:
            round_id = self._waiting[0] if self._has_room_for_more() else None
        if round_id is None:
            return
        process = self._start(round_id)  # without the lock: the database may take its time
        with self._changed:
            if self._waiting:  # else we are closing
                self._waiting.popleft()
            if process is not None:
                self._running[round_id] = process

    def _start(self, round_id: str) -> "subprocess.Popen[bytes] | None":
        if not self._exits.is_wanted(round_id):
            log.info("round_not_wanted", round=round_id)
            return None
        command = guarded((*self._command, round_id), nice=NICENESS)
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        except OSError as error:
            # Out of memory or processes for now: the round stays claimed and the sweep sends it again.
            log.error("round_not_started", round=round_id, error=str(error))
            return None
        log.info("round_started", round=round_id, process=process.pid)
        return process

    def _reap(self) -> None:
        with self._changed:
            ended = [
                (round_id, process, code)
                for round_id, process in self._running.items()
                if (code := process.poll()) is not None
            ]
            for round_id, _, code in ended:
                del self._running[round_id]
                self._ended.append((round_id, code))
            del self._ended[:-100]
        for round_id, process, code in ended:
            self._exits.ended(round_id, process.pid, code)

    def _stop_running(self) -> None:
        for process in self._running.values():
            process.terminate()
        for round_id, process in self._running.items():
            try:
                code = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._exits.killed_at_stop(round_id, process.pid)
            else:
                if code != -signal.SIGTERM:
                    self._exits.ended(round_id, process.pid, code)
                else:  # it had not come so far as to answer signals
                    self._exits.killed_at_stop(round_id, process.pid)


def trainer_app(settings: Settings, rounds: RoundProcesses) -> Celery:
    """The app with this worker's one task.

    Raises:
        SettingsError: no broker, or delivery times that cannot work.
    """
    app = celery_app(settings.broker_url, delivery=delivery_of(settings))

    @app.task(name=TRAIN_ROUND, acks_late=False)
    def train_round(round_id: str) -> None:
        rounds.take(round_id)

    return app


def work(settings: Settings, ready_file: Path | None, command: tuple[str, ...] = ROUND) -> int:
    """Work until told to stop; returns the exit code. `command` trains the round whose id is appended.

    Raises:
        SettingsError: settings that cannot work.
    """
    delivery = delivery_of(settings)
    refuse_unusable_broker(settings.broker_url)
    database = Database(settings.effective_database_url)
    rounds = RoundProcesses(command, RoundExits(database))
    try:
        return run_worker(
            trainer_app(settings, rounds),
            (TRAIN_QUEUE,),
            pool="solo",
            concurrency=1,
            delivery=delivery,
            ready_file=ready_file,
        )
    finally:
        rounds.close()
        database.close()
