"""The right to work on a round, for a time: claimed → training, training ⇄ gating."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Update, or_, update
from sqlmodel import Session, col

from ..columns import utc_now
from ..errors import LostLease
from ..models import RUNNING_ROUNDS, Round
from .compare_and_set import move


@dataclass(frozen=True)
class Lease:
    """The right to work on a round: worth something only while `fence` is the row's."""

    round_id: str
    fence: int
    owner: str
    seconds: float


def acquire_lease(session: Session, round_id: str, owner: str, seconds: float) -> Lease:
    """Take a round that nobody holds: first start, or after its holder stopped its heartbeat.

    Raises:
        LostLease: somebody holds it, or it is over.
    """
    now = utc_now()
    moved = move(
        session,
        update(Round)
        .where(
            col(Round.id) == round_id,
            col(Round.state).in_(RUNNING_ROUNDS),
            or_(col(Round.lease_expires_at).is_(None), col(Round.lease_expires_at) < now),
        )
        .values(
            state="training",
            fence=Round.fence + 1,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=seconds),
            started_at=now,
        ),
    )
    if not moved:
        raise LostLease(f"round {round_id} is held by another worker, or over")
    row = session.get_one(Round, round_id, populate_existing=True)
    return Lease(round_id, row.fence, owner, seconds)


def heartbeat(
    session: Session,
    lease: Lease,
    *,
    state: str = "training",
    progress: float | None = None,
    metrics: dict[str, Any] | None = None,
) -> bool:
    """Keep the lease and report; returns whether someone asked to cancel.

    Raises:
        LostLease: the fence has moved on, so this worker must stop.
    """
    values: dict[str, Any] = {
        "lease_expires_at": utc_now() + timedelta(seconds=lease.seconds),
        "state": state,
    }
    if progress is not None:
        values["progress"] = progress
    if metrics is not None:
        values["metrics"] = metrics
    if not move(session, held_round(lease).values(**values)):
        raise LostLease(f"round {lease.round_id} was taken over")
    return session.get_one(Round, lease.round_id, populate_existing=True).cancel_requested


def release_lease(session: Session, lease: Lease) -> None:
    """Stop working on a round without ending it: the next worker need not wait for the lease to run out."""
    if not move(session, held_round(lease).values(lease_expires_at=utc_now())):
        raise LostLease(f"round {lease.round_id} was taken over")


def release_left_behind(session: Session, round_id: str, owner: str) -> None:
    """`release_lease` for a holder that was killed before it could; nothing if it holds the round no more."""
    row = session.get(Round, round_id, with_for_update=True, populate_existing=True)
    if row is not None and row.state in RUNNING_ROUNDS and row.lease_owner == owner:
        release_lease(session, Lease(round_id, row.fence, owner, 0))


def held_round(lease: Lease) -> Update:
    """A change of the lease's round, which finds no row when the round is over or was taken over."""
    return update(Round).where(
        col(Round.id) == lease.round_id,
        col(Round.fence) == lease.fence,
        col(Round.state).in_(RUNNING_ROUNDS),
    )
