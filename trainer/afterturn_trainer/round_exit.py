"""What the worker does about a round whose process has ended, with what it knows: the exit code.

A round ends itself in the database as a rule. One that was killed, for want of memory for example, or
that could not even begin, cannot: then its worker says why it failed, and its turns go back at once.
"""

import signal
import socket
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session
from structlog.stdlib import get_logger

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.errors import LostLease
from afterturn_core.models import RUNNING_ROUNDS, Round

log = get_logger(__name__)


def owner_of(pid: int) -> str:
    """The name under which a process of this machine holds rounds."""
    return f"{socket.gethostname()}:{pid}"


def reason(code: int) -> str:
    """An exit code (negative: the signal) for people."""
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL), as the kernel does when memory runs out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}; the trainer's log says why"


class RoundExits:
    """Looks rounds up and ends them in the database on behalf of their processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_wanted(self, round_id: str) -> bool:
        """Whether starting a process for this round is worth it: it is not over, and nobody holds it."""
        try:
            with self._database.read() as session:
                row = session.get(Round, round_id)
        except SQLAlchemyError as error:
            log.warning("database_away", round=round_id, error=type(error).__name__)
            return False  # the sweep sends it again
        if row is None or row.state not in RUNNING_ROUNDS:
            return False
        return row.lease_expires_at is None or row.lease_expires_at < utc_now()

    def ended(self, round_id: str, pid: int, code: int) -> None:
        """The process ended by itself: fail the round if it should have done so and did not."""
        if code == 0:
            log.info("round_ended", round=round_id)
            return
        log.error("round_process_failed", round=round_id, reason=reason(code), exit_code=code)

        def fail(session: Session) -> None:
            if lifecycle.fail_left_behind(session, round_id, owner_of(pid), reason(code)):
                log.warning("round_failed", round=round_id)

        self._change(fail)

    def killed_at_stop(self, round_id: str, pid: int) -> None:
        """The process did not let go of its lease in time: give it back, for another worker to go on."""
        log.warning("round_stopped", round=round_id)
        self._change(lambda session: lifecycle.release_left_behind(session, round_id, owner_of(pid)))

    def _change(self, change: Callable[[Session], None]) -> None:
        try:
            with self._database.write() as session:
                change(session)
        except LostLease as error:
            log.info("round_taken_over", reason=error.message)
        except SQLAlchemyError as error:
            # Its lease runs out, and the sweep takes it from there.
            log.warning("round_end_not_stored", error=type(error).__name__)
