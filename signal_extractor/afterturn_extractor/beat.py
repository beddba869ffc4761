"""The clock: sends a sweep message every few seconds, in a thread of the extractor's process.

A thread and not Celery's own second process: one process to watch, and no schedule file, since a sweep
that was missed is made up for by the next. Several extractors each have a clock, which is harmless.
"""

import threading
from types import TracebackType
from typing import Final

from celery import Celery
from celery.beat import Scheduler, Service
from structlog.stdlib import get_logger

AGAIN_S: Final = 5.0
STOP_S: Final = 2.0

log = get_logger(__name__)


class Beat:
    """Beats for the length of a `with` block, whatever happens to the broker meanwhile."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._over = threading.Event()
        self._service: Service | None = None
        # It may hang in a connection that nobody answers, which must not keep the process.
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)

    def __enter__(self) -> "Beat":
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._service is not None:
            self._service.stop()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._over.is_set():
            self._service = Service(self._app, max_interval=1, scheduler_cls=Scheduler)
            try:
                self._service.start()
            except Exception:  # without a clock nothing would move, so it is started again
                log.exception("beat_failed")
            self._over.wait(AGAIN_S)
