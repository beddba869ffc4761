"""What the routes of one gateway process share."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy.exc import DataError
from sqlmodel import Session
from starlette.requests import Request
from structlog.stdlib import get_logger

from afterturn_core.database import Database
from afterturn_core.errors import DatabaseAway
from afterturn_core.models import EngineModel
from afterturn_core.settings import Settings

from .acquaintances import Acquaintances
from .caller import Caller, RequestRate, find_caller, presented_key
from .metrics import Metrics
from .outage import away, means_away, refused_value
from .readers import SUSPECT_S, Readers
from .resolution import Weights
from .upstream import Upstream
from .usage import count_request
from .writer import Writer

U = TypeVar("U")
T = TypeVar("T")

log = get_logger(__name__)

READERS = 8  # threads that look things up; below the connection pool's size


class Wakes(Protocol):
    """What the gateway tells workers; `afterturn_core.broker.Wake` does it through Celery."""

    def judge(self, turn_id: str) -> bool:
        """A turn waits for a verdict."""

    def train(self, round_id: str) -> bool:
        """A round waits for a trainer."""


class Gateway:
    """Settings, database, engine and broker, as one process of the gateway uses them."""

    def __init__(self, settings: Settings, database: Database, wake: Wakes) -> None:
        self.settings = settings
        self.database = database
        self.rate = RequestRate()
        self.acquaintances = Acquaintances()
        self.writer = Writer(database, patience_s=settings.database_timeout_s)
        self.outage = self.writer.outage
        self._lookers = Readers(database, self.outage, settings.database_timeout_s)
        self.metrics = Metrics(database, self.outage)
        self.upstream = Upstream(settings)
        self.accepting = True
        self.loop: asyncio.AbstractEventLoop | None = None  # the one that serves, once it runs
        self._adapter_root = settings.adapter_root  # finding it asks the file system
        self._wake = wake
        self._looking = False
        self._readers = anyio.CapacityLimiter(READERS)
        self._wakers = anyio.CapacityLimiter(1)
        self._later: set[asyncio.Task[None]] = set()

    async def look(self, look: Callable[[Session], T]) -> T:
        """Run a short `look` in a transaction that it may share with other requests' looks.

        Raises:
            DatabaseAway, RequestError: as `read` does.
        """
        return await self._lookers.run(look)

    async def read(self, look: Callable[[Session], T]) -> T:
        """Run `look` in a transaction of its own, on a thread; it may take its time.

        Raises:
            DatabaseAway: the database does not answer, or not in time.
            RequestError: it was asked for a value that it cannot hold.
        """
        self.outage.check()

        def work() -> T:
            with self.database.read() as session:
                return look(session)

        suspicion = asyncio.get_running_loop().call_later(SUSPECT_S, self.outage.suspect)
        try:
            with anyio.fail_after(self.settings.database_timeout_s):
                return await anyio.to_thread.run_sync(work, limiter=self._readers, abandon_on_cancel=True)
        except TimeoutError:
            self.outage.suspect()
            raise away() from None
        except DataError as error:
            raise refused_value(error) from error
        except Exception as error:
            if not means_away(error):
                raise
            self.outage.begin(error)
            raise away() from error
        finally:
            suspicion.cancel()

    async def write(self, change: Callable[[Session], T]) -> T:
        """Run `change` in a transaction; it is committed when this returns.

        Raises:
            DatabaseAway: it cannot be, or not in time; in that case it may still come to be.
            RequestError: the database cannot hold a value of it.
        """
        return await self.writer.run(change)

    async def write_together(self, change: Callable[[Session, Sequence[U]], Sequence[T]], item: U) -> T:
        """Like `write`, of a change that is made for several requests at once."""
        return await self.writer.run_together(change, item)

    async def weights(self) -> Weights:
        """What adapters must fit to be served; looked at again from time to time, without waiting."""
        if not self.upstream.knows_identity:
            await self.look_at_engine()
        elif self.upstream.identity_is_old and not self._looking:
            self._looking = True
            self.spawn(self._look_again())
        identity = await self.upstream.identity()
        return Weights(identity.model_hash, self._adapter_root)

    async def look_at_engine(self) -> None:
        """Ask the engine for its base model, and note it for those who train and check.

        Raises:
            EngineError: it does not answer.
        """
        identity = await self.upstream.identity(fresh=True)
        seen = EngineModel(
            model_hash=identity.model_hash, name=identity.served_name, max_model_len=identity.max_model_len
        )

        def note(session: Session) -> None:
            session.merge(seen)

        try:
            await self.write(note)
        except DatabaseAway:
            log.warning("engine_not_noted")  # the next look, in half a minute, notes it again

    async def _look_again(self) -> None:
        try:
            await self.look_at_engine()
        finally:
            self._looking = False

    async def caller(self, request: Request, scope: str) -> Caller:
        """Who makes this request, allowed to do what `scope` names.

        Raises:
            AuthenticationError, PermissionDenied, RateLimited: it may not.
        """
        key = presented_key(request.headers)
        caller = await self.look(lambda session: find_caller(session, key, scope))
        await self.count(caller)
        return caller

    async def count(self, caller: Caller) -> None:
        """Count one request of a key that may make so many a minute.

        Raises:
            RateLimited: it is one too many; `retry_after` is when the next is welcome.
        """
        limit = caller.requests_per_minute
        if limit is None:
            return
        self.rate.check(caller)
        wait = await self.write(lambda session: count_request(session, caller.key_id, limit, time.time()))
        if wait is not None:
            raise self.rate.refuse(caller, wait)

    def wake_judge(self, turn_ids: Sequence[str]) -> None:
        """Wake the extractor about observed turns, without waiting for the broker."""
        for turn_id in dict.fromkeys(turn_ids):
            self.spawn(self._send(self._wake.judge, turn_id))

    def wake_trainer(self, round_id: str) -> None:
        """Wake a trainer about a claimed round, without waiting for the broker."""
        self.spawn(self._send(self._wake.train, round_id))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something after the answer; a failure is logged."""
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._later.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("background_work_failed", error=type(error).__name__)

    async def _send(self, send: Callable[[str], bool], subject: str) -> None:
        await anyio.to_thread.run_sync(send, subject, limiter=self._wakers)

    async def aclose(self) -> None:
        """Commit and send what waits, then close every connection."""
        self.accepting = False
        if self._later:
            await asyncio.wait(self._later, timeout=5.0)  # the sweep sends again what is not sent now
        await asyncio.to_thread(self.writer.close)
        await asyncio.to_thread(self._lookers.close)
        await self.upstream.aclose()
