"""Threads that look things up for requests, for several in one transaction when several wait."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy.exc import DataError
from sqlmodel import Session

from afterturn_core.database import Database

from .jobs import Job, Jobs, Outcome, done, each, tell
from .lookup import share_lookups
from .outage import Outage, away, means_away, refused_value

T = TypeVar("T")

GROUP = 16
SUSPECT_S = 2.0  # a look that takes so long makes one wonder whether the database is there
SQLITE_THREADS = 1  # a second one takes the interpreter from the requests more often than it helps them
POSTGRESQL_THREADS = 8  # these wait for the network


class Readers:
    """Runs short looks; each sees everything that was committed before it was asked for."""

    def __init__(self, database: Database, outage: Outage, patience_s: float) -> None:
        self._database = database
        self._outage = outage
        self._patience_s = patience_s
        self._looks = Jobs(GROUP)
        count = POSTGRESQL_THREADS if database.is_postgresql else SQLITE_THREADS
        self._threads = [
            threading.Thread(target=self._work, name=f"reader {number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, look: Callable[[Session], T]) -> T:
        """What `look` finds; it changes nothing.

        Raises:
            DatabaseAway: the database does not answer, or not in time.
            RequestError: it was asked for a value that it cannot hold.
        """
        self._outage.check()
        job = self._looks.put(each, look)
        suspicion = job.loop.call_later(min(SUSPECT_S, self._patience_s), self._wonder, job)
        try:
            return await job.result
        finally:
            suspicion.cancel()

    def close(self) -> None:
        """Stop when what is being looked up is found; a frozen database is not waited for."""
        for _ in self._threads:
            self._looks.close()
        for thread in self._threads:
            thread.join(timeout=self._patience_s)

    def _wonder(self, job: Job[Any, Any]) -> None:
        self._outage.suspect()
        job.loop.call_later(max(0.0, self._patience_s - SUSPECT_S), self._give_up, job)

    def _give_up(self, job: Job[Any, Any]) -> None:
        if not job.given_up:
            job.result.set_exception(away())

    def _work(self) -> None:
        for group in self._looks.groups():
            tell(self._look(group))

    def _look(self, group: Sequence[Job[Any, Any]]) -> list[Outcome]:
        """One transaction for all; one that breaks it gets, like those behind it, another."""
        seen: list[Outcome] = []
        while len(seen) < len(group):
            try:
                with self._database.read() as session:
                    share_lookups(session)  # of a group, all had asked before the transaction began
                    for job in group[len(seen) :]:
                        seen.append(Outcome(job, *done(session, [job])))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits for the look
                if means_away(error):
                    self._outage.begin(error)
                    seen += [Outcome(job, error=away()) for job in group[len(seen) :]]
                elif len(seen) < len(group):
                    refusal = refused_value(error) if isinstance(error, DataError) else error
                    seen.append(Outcome(group[len(seen)], error=refusal))
        return seen
