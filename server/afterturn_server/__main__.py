"""`python -m afterturn_server`: the gateway as a process, set up by `AFTERTURN_*`."""

import gc
import resource
import signal
import socket
import sys
import time
from types import FrameType

import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from structlog.stdlib import get_logger

from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.errors import SchemaError, SettingsError
from afterturn_core.keys import prepare_first_start
from afterturn_core.logs import configure_logs
from afterturn_core.settings import Settings, load_settings

from .app import create_app
from .interpreter import share_interpreter
from .outage import PROBE_S, means_away, reason

GRACE_S = 20  # seconds that running replies get to end after a signal to stop
BACKLOG = 1024
GARBAGE = (10_000, 20, 20)  # a request alone makes more objects than Python's 700

log = get_logger(__name__)


def main() -> int:
    """Serve until stopped; 2 when a setting, the port or the database's schema cannot work."""
    try:
        settings = load_settings()
        configure_logs(settings.log_level)
        share_interpreter(settings.gateway_core)
        listener = _listen(settings)
        _allow_files()
    except SettingsError as error:
        return _refuse(error.message)
    # uvicorn raises the signal that stopped it once more, when it has stopped: that is a clean end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    database = Database(settings.effective_database_url)
    try:
        with listener:
            _prepare(database, settings)
            _serve(settings, database, listener)
    except SchemaError as error:
        return _refuse(error.message)
    finally:
        database.close()
    return 0


def _prepare(database: Database, settings: Settings) -> None:
    """Check the schema and make the first keys; a database that is not there yet is waited for."""
    told = False
    while True:
        try:
            database.check_schema()
            prepare_first_start(database, settings)
            return
        except SQLAlchemyError as error:
            if not means_away(error):
                raise
            if not told:
                log.warning("waiting_for_database", error=reason(error))
            told = True
            time.sleep(PROBE_S)


def _serve(settings: Settings, database: Database, listener: socket.socket) -> None:
    config = uvicorn.Config(
        create_app(settings, database, Wake(settings.broker_url)),
        log_level=settings.log_level,
        access_log=False,
        proxy_headers=False,  # nothing here depends on what a proxy says of a client
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    # What is here now stays; looking through it again and again for garbage finds none.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    log.info("serving", url=f"http://{settings.host}:{settings.port}/v1")
    uvicorn.Server(config).run(sockets=[listener])


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _listen(settings: Settings) -> socket.socket:
    try:
        return socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
            backlog=BACKLOG,
        )
    except OSError as error:
        address = f"{settings.host}:{settings.port}"
        raise SettingsError(
            f"AFTERTURN_HOST, AFTERTURN_PORT: cannot listen on {address}: {error.strerror}"
        ) from None


def _allow_files() -> None:
    """Every stream takes two descriptors; the usual soft limit of 1024 is for programs that use select()."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _refuse(message: str) -> int:
    sys.stderr.write(f"afterturn gateway: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
