"""One thread commits for all requests of this process, in groups: SQLite has one writer anyway."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DataError, IntegrityError
from sqlmodel import Session

from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.errors import DatabaseAway, Unavailable
from afterturn_core.ids import new_id
from afterturn_core.models import Content, EngineModel

from .database_file import DatabaseFile
from .jobs import Job, Jobs, Outcome, Work, done, each, tell
from .outage import Outage, away, is_collision, means_away, refused_value

U = TypeVar("U")
T = TypeVar("T")

CAPACITY = 4096  # jobs that may wait: more than requests are let in, so that a request is never half served
GROUP = 32  # jobs in one transaction, so that none waits long for the others
PATIENCE_S = 10.0
RETRY_S = 1.0
PROBE_BYTES = 64 * 1024
AGAIN = 3  # times that a job is run which met another process's transaction

_MODELS = EngineModel.__table__  # type: ignore[attr-defined]
_CONTENTS = Content.__table__  # type: ignore[attr-defined]
# The latest stays the latest. A row that did not change would not be written, and a full disk not be found.
_TOUCH = (
    update(_MODELS)
    .where(_MODELS.c.seen_at == select(func.max(_MODELS.c.seen_at)).scalar_subquery())
    .values(seen_at=bindparam("now"))
)


class Writer:
    """Runs jobs in order, each in a transaction that it may share with its neighbours."""

    def __init__(self, database: Database, *, patience_s: float = PATIENCE_S) -> None:
        self.outage = Outage(self._probe)
        self._database = database
        self._file = DatabaseFile(database)
        self._patience_s = patience_s
        self._jobs = Jobs(GROUP)
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    async def run(self, change: Callable[[Session], T]) -> T:
        """The change's result, once it is committed; what it raises rolls back this one alone.

        A change may be made twice, the first time in vain: it changes nothing but the database.

        Raises:
            DatabaseAway: the database cannot be written, or did not answer in time; in that case the change
                may still come to be made.
            Unavailable: too many jobs wait already.
            RequestError: the database cannot hold a value of it.
        """
        return await self.run_together(each, change)

    async def run_together(self, work: Work[U, T], item: U) -> T:
        """Like `run`, of work that is done for several items in one call, which gives a value for each.

        Should it fail, it is done for each by itself.
        """
        self.outage.check()
        if len(self._jobs) >= CAPACITY:
            raise Unavailable("The database cannot keep up.", code="database_overloaded", retry_after=RETRY_S)
        job = self._jobs.put(work, item)
        timer = job.loop.call_later(self._patience_s, self._give_up, job)
        try:
            return await job.result
        finally:
            timer.cancel()

    def close(self) -> None:
        """Commit what waits, then stop."""
        if self._thread.is_alive():
            self._jobs.close()
            self._thread.join(timeout=2 * self._patience_s)  # a frozen database is not waited for
        self.outage.close()

    def _probe(self) -> None:
        """Write as much as a turn may take, and take it back; raises what a job would run into."""
        self._file.adopt()
        with self._database.write() as session:
            connection, digest = session.connection(), new_id("probe")
            connection.execute(_TOUCH, {"now": utc_now()})
            connection.execute(insert(_CONTENTS), {"digest": digest, "body": bytes(PROBE_BYTES)})
            connection.execute(delete(_CONTENTS).where(_CONTENTS.c.digest == digest))

    def _give_up(self, job: Job[Any, Any]) -> None:
        if not job.given_up:
            self.outage.suspect()
            job.result.set_exception(away())

    def _work(self) -> None:
        for group in self._jobs.groups():
            self._commit(group)

    def _commit(self, group: Sequence[Job[Any, Any]], *, attempt: int = 1) -> None:
        """One transaction for the group; if any job fails, each gets one of its own.

        Two processes that insert the same row at once: the loser looks again, and finds it.
        """
        if not group:
            return
        try:
            if self.outage.away:
                raise away()
            self._file.check()
            with self._database.write() as session:
                values = done(session, group)
                session.flush()
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the job
            self._failed(group, error, attempt)
            return
        tell([Outcome(job, value) for job, value in zip(group, values, strict=True)])

    def _failed(self, group: Sequence[Job[Any, Any]], error: Exception, attempt: int) -> None:
        lost = isinstance(error, DatabaseAway)
        if means_away(error):
            self.outage.begin(error)
            lost = True
        if lost:  # none of them would fare better alone
            tell([Outcome(job, error=away()) for job in group])
        elif len(group) > 1:
            for job in group:
                self._commit([job])
        elif attempt < AGAIN and (isinstance(error, IntegrityError) or is_collision(error)):
            self._commit(group, attempt=attempt + 1)
        else:
            refusal = refused_value(error) if isinstance(error, DataError) else error
            tell([Outcome(job, error=refusal) for job in group])
