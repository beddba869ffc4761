"""Old turns go after so many days, if that is wanted: with their messages, signals and feedback.

Adapters, rounds and their figures stay. What a round is learning from at the moment stays until the round has
ended. Unlike erasing (`erasure.py`) this concludes nothing: what was learned from old turns is kept.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete
from sqlmodel import Session, col, select

from .columns import utc_now
from .database import Database
from .erasure import erase_empty_sessions, forget_signals, remove_rows
from .ids import first_id
from .models import RUNNING_ROUNDS, Conversation, Feedback, NextState, Round, Turn

BATCH: Final = 50  # turns in one transaction: nobody waits noticeably for the database
BATCHES: Final = 10  # in one sweep


def remove_old_turns(
    database: Database, days: float, *, batch: int = BATCH, batches: int = BATCHES
) -> list[str]:
    """Remove turns that were made more than `days` ago, the oldest first, at most `batch` times `batches`.

    Returns their ids. 0 days: nothing is ever old.
    """
    if not days:
        return []
    before = utc_now() - timedelta(days=days)
    removed: list[str] = []
    for _ in range(batches):
        with database.read() as session:
            if not _old_turns(session, before, 1):
                break  # the usual case, without the lock of a writer
        with database.write() as session:
            turn_ids = _old_turns(session, before, batch)
            _remove(session, turn_ids, before)
        removed += turn_ids
    return removed


def _old_turns(session: Session, before: datetime, limit: int) -> list[str]:
    """Ids sort by time, so the old ones are a range of the primary key.

    None that a round is claiming this moment, and in a writing transaction none is claimed before it ends.
    """
    running = select(Round.id).where(col(Round.state).in_(RUNNING_ROUNDS))
    statement = (
        select(Turn.id)
        .where(
            col(Turn.id) < first_id("turn", before),
            Turn.state != "claimed",
            col(Turn.round_id).is_(None) | col(Turn.round_id).not_in(running),
        )
        .order_by(Turn.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return list(session.exec(statement).all())


def _remove(session: Session, turn_ids: Sequence[str], before: datetime) -> None:
    sessions = set(session.exec(select(Turn.session_id).where(col(Turn.id).in_(turn_ids))).all())
    session.execute(delete(NextState).where(col(NextState.turn_id).in_(turn_ids)))
    session.execute(delete(Feedback).where(col(Feedback.turn_id).in_(turn_ids)))
    forget_signals(session, turn_ids)
    remove_rows(session, turn_ids)
    idle = select(Conversation.id).where(
        col(Conversation.id).in_(sessions), col(Conversation.last_seen_at) < before
    )
    erase_empty_sessions(session, session.exec(idle).all())
