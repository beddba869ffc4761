"""Whether the database can be used: once it fails, nobody waits for it until it takes writes again."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog.stdlib import get_logger

from afterturn_core.errors import AfterturnError, DatabaseAway, RequestError

from .database_file import DatabaseMoved

PROBE_S = 1.0  # between two looks whether it is back; also what clients are told to wait
PROBE_PATIENCE_S = 2.0  # a look that takes longer than this finds it away
_POLL_S = 0.05

_SQLITE_AWAY = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)
_TRY_AGAIN = frozenset({"40001", "40P01"})  # PostgreSQL: two transactions met; the database is there

log = get_logger(__name__)


class Outage:
    """What this process knows of its database. `probe` raises unless the database takes a write."""

    def __init__(self, probe: Callable[[], None]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._probing = False
        self._closed = threading.Event()
        self._since: float | None = None

    @property
    def away(self) -> bool:
        """Whether it is known to be away."""
        return self._since is not None

    def check(self) -> None:
        """Raises DatabaseAway while it is known to be away."""
        if self._since is not None:
            raise away()

    def begin(self, error: BaseException) -> None:
        """Note that it failed, and look from now on whether it is back."""
        with self._lock:
            if self._since is None:
                self._since = time.monotonic()
                log.error("database_away", error=reason(error))
        self._start(PROBE_S)

    def suspect(self) -> None:
        """It has been silent for a while: look whether it is there."""
        self._start(0)

    async def over(self, within_s: float) -> bool:
        """Whether it is back, or comes back within so many seconds."""
        end = time.monotonic() + within_s
        while self._since is not None:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(_POLL_S)  # the probe's thread ends it, for the loops of all who wait
        return True

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()

    def _start(self, pause_s: float) -> None:
        with self._lock:
            if self._probing or self._closed.is_set():
                return
            self._probing = True
        threading.Thread(target=self._watch, args=(pause_s,), name="database probe", daemon=True).start()

    def _watch(self, pause_s: float) -> None:
        """Probe until it is there. A probe that hangs is left to hang: it answers when the database does."""
        while not self._closed.wait(pause_s):
            pause_s = PROBE_S
            timer = threading.Timer(PROBE_PATIENCE_S, self.begin, (TimeoutError("no answer"),))
            timer.daemon = True
            timer.start()
            try:
                self._probe()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is not back
                timer.cancel()
                self.begin(error)
            else:
                timer.cancel()
                self._back()
                return

    def _back(self) -> None:
        with self._lock:
            if self._since is not None:
                log.warning("database_back", seconds=round(time.monotonic() - self._since, 1))
            self._since = None
            self._probing = False


def away() -> DatabaseAway:
    """What a request is told that finds the database away."""
    return DatabaseAway("The database is away for now.", retry_after=PROBE_S)


def means_away(error: BaseException) -> bool:
    """Whether an error says that the database cannot be used, rather than that this use of it was wrong."""
    if isinstance(error, PoolTimeout | DatabaseMoved):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return isinstance(error, DatabaseError) and code is not None and code & 0xFF in _SQLITE_AWAY
    return isinstance(error, OperationalError | InterfaceError | InternalError) and not is_collision(error)


def is_collision(error: BaseException) -> bool:
    """Whether two transactions stood in each other's way, so that one has only to be run again."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _TRY_AGAIN


def refused_value(error: BaseException) -> AfterturnError:
    """What a request is told that brought a value which no column can hold, like text with a NUL."""
    refusal = RequestError("The request holds a value that cannot be stored.", code="invalid_value")
    refusal.__cause__ = error
    return refusal


def reason(error: BaseException) -> str:
    """What an error is called, without statements and values."""
    orig = getattr(error, "orig", None)
    name = getattr(orig, "sqlite_errorname", None) or getattr(orig, "sqlstate", None)
    return name or type(orig or error).__name__
