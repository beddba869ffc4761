"""Observed turns that nobody judges, a page at a time, so that the oldest cannot hide the others."""

from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session, and_, col, or_, select

from afterturn_core.columns import written_out
from afterturn_core.models import Turn


@dataclass(frozen=True)
class Place:
    """How far a pass through the waiting turns has come: stamp and id of the last one seen."""

    observed_at: datetime
    turn_id: str


def waiting_turns(
    session: Session, before: datetime, after: Place | None, limit: int
) -> tuple[list[str], Place | None]:
    """Turns that were observed before `before` and still wait for a verdict, oldest first.

    Returns at most `limit` ids, from `after` on, and the place to go on from: `None` at the end.
    """
    statement = select(Turn.id, Turn.observed_at).where(
        Turn.state == written_out("observed"), col(Turn.observed_at) < before
    )
    if after is not None:
        statement = statement.where(
            or_(
                col(Turn.observed_at) > after.observed_at,
                and_(col(Turn.observed_at) == after.observed_at, col(Turn.id) > after.turn_id),
            )
        )
    rows = session.exec(statement.order_by(col(Turn.observed_at), col(Turn.id)).limit(limit)).all()
    ids = [turn_id for turn_id, _ in rows]
    if len(rows) < limit:
        return ids, None
    last_id, stamp = rows[-1]
    assert stamp is not None  # it was compared
    return ids, Place(stamp, last_id)
