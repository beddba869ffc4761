"""What moves time: idle sessions settle, forgotten work is sent again, rounds start.

Every step is a compare-and-set in the database, so sweeping twice, or from two processes, is harmless.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from sqlmodel import Session, and_, col, or_, select
from structlog.stdlib import get_logger

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.models import RUNNING_ROUNDS, Conversation, Round
from afterturn_core.retention import remove_old_turns
from afterturn_core.settings import Settings
from afterturn_extractor.pacing import Pace
from afterturn_extractor.scheduling import start_due_rounds
from afterturn_extractor.waiting import Place, waiting_turns

GRACE_S: Final = 3.0  # the first message is usually still on its way
LONGEST_PAUSE_S: Final = 600.0
BATCH: Final = 500  # rows of one kind in one statement
QUEUED: Final = 1_000  # messages in the queue that the sweep fills it up to: some seconds' work
PAGES: Final = 10  # of waiting turns that one sweep looks at; the next one goes on from there

log = get_logger(__name__)


@dataclass(frozen=True)
class Swept:
    """What one sweep did: ids."""

    settled: tuple[str, ...] = ()
    judged_again: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    trained_again: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Wakes(Protocol):
    """Sends messages; `afterturn_core.broker.Wake` does it through Celery. False: not sent."""

    def judge(self, turn_id: str) -> bool:
        """A turn waits for a verdict."""

    def waiting(self) -> int:
        """How many verdicts were asked for that no worker has begun."""

    def train(self, round_id: str) -> bool:
        """A round waits for a trainer."""


class Sweep:
    """Sweeps a database; remembers only what it sent when, and how far it has looked."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        wake: Wakes,
        *,
        judge_came_back: Callable[[], bool] = lambda: False,
        batch: int = BATCH,
        pages: int = PAGES,
    ) -> None:
        """`judge_came_back` says, once, that what turns waited for is over."""
        self._judge_came_back = judge_came_back
        self._batch = batch
        self._pages = pages
        self._database = database
        self._settings = settings
        self._wake = wake
        self._turns = Pace(GRACE_S, LONGEST_PAUSE_S)
        self._place: Place | None = None
        self._seen: set[str] = set()
        self._rounds = Pace(GRACE_S, settings.lease_s)
        self._one_at_a_time = threading.Lock()

    def once(self) -> Swept:
        """One sweep; returns what it did. Nothing, if another thread of this process still sweeps.

        A step that fails does not keep the others from being done; its error is raised at the end.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            return Swept()
        try:
            return self._sweep()
        finally:
            self._one_at_a_time.release()

    def _sweep(self) -> Swept:
        errors: list[Exception] = []

        def done(step: Callable[[], list[str]]) -> tuple[str, ...]:
            try:
                return tuple(step())
            except Exception as error:  # noqa: BLE001 - raised below, after the other steps
                errors.append(error)
                return ()

        swept = Swept(
            settled=done(self._settle_idle),
            judged_again=done(self._judge_again),
            given_up=done(self._give_up),
            started=done(self._start_rounds),
            trained_again=done(self._train_again),
            removed=done(self._remove_old),
        )
        if swept != Swept():
            log.info("swept", **{name: len(ids) for name, ids in vars(swept).items() if ids})
        if errors:
            raise errors[0]
        return swept

    def _remove_old(self) -> list[str]:
        return remove_old_turns(self._database, self._settings.retention_days)

    def _settle_idle(self) -> list[str]:
        before = utc_now() - timedelta(seconds=self._settings.idle_s)
        waiting = and_(
            col(Conversation.settled).is_(False),
            or_(col(Conversation.ended_at).is_not(None), col(Conversation.last_seen_at) < before),
        )
        with self._database.read() as session:
            ids = session.exec(select(Conversation.id).where(waiting).limit(BATCH)).all()
        settled = []
        for session_id in ids:
            with self._database.write() as session:
                # Looked at again under the lock: a request may just have come in.
                row = session.exec(
                    select(Conversation)
                    .where(Conversation.id == session_id, waiting)
                    .with_for_update(skip_locked=True)
                ).one_or_none()
                if row is None:
                    continue
                turns = lifecycle.settle_session(session, session_id, ended=row.ended_at is not None)
            settled.append(session_id)
            for turn_id in turns:
                self._wake.judge(turn_id)
        return settled

    def _judge_again(self) -> list[str]:
        before = utc_now() - timedelta(seconds=GRACE_S)
        if self._judge_came_back():
            self._turns.forget()
        sent: list[str] = []
        # Behind a long queue nothing is forgotten, only late: a second message would make it later still.
        room = QUEUED - self._wake.waiting()
        for _ in range(self._pages):
            with self._database.read() as session:
                page, following = waiting_turns(session, before, self._place, self._batch)
            if not self._send_due(page, self._turns, self._wake.judge, sent, room):
                return sent  # from the same place, once there is room or the broker is back
            self._seen.update(page)
            self._place = following
            if following is None:
                self._turns.keep(self._seen)
                self._seen.clear()
                break
        return sent

    def _send_due(
        self,
        ids: list[str],
        pace: Pace,
        send: Callable[[str], bool],
        sent: list[str],
        at_most: int | None = None,
    ) -> bool:
        """Send what is due and add it to `sent`, until that holds `at_most`; false once one was not sent."""
        now = time.monotonic()
        for name in ids:
            if pace.is_due(name, now):
                if (at_most is not None and len(sent) >= at_most) or not send(name):
                    return False
                pace.sent(name, now)
                sent.append(name)
        return True

    def _give_up(self) -> list[str]:
        if not self._unheld_rounds():
            return []
        with self._database.write() as session:
            return lifecycle.give_up_abandoned(session)

    def _start_rounds(self) -> list[str]:
        started = start_due_rounds(self._database, self._settings)
        for round_id in started:
            self._wake.train(round_id)
        return started

    def _train_again(self) -> list[str]:
        unheld = self._unheld_rounds()
        self._rounds.keep(unheld)
        sent: list[str] = []
        self._send_due(unheld, self._rounds, self._wake.train, sent)
        return sent

    def _unheld_rounds(self) -> list[str]:
        with self._database.read() as session:
            return _unheld_rounds(session)


def _unheld_rounds(session: Session) -> list[str]:
    """Rounds that nobody works on: claimed a while ago and never begun, or their lease ran out."""
    now = utc_now()
    return list(
        session.exec(
            select(Round.id)
            .where(
                col(Round.state).in_(RUNNING_ROUNDS),
                or_(
                    and_(
                        col(Round.lease_expires_at).is_(None),
                        col(Round.created_at) < now - timedelta(seconds=GRACE_S),
                    ),
                    col(Round.lease_expires_at) < now,
                ),
            )
            .order_by(col(Round.id))
        ).all()
    )
