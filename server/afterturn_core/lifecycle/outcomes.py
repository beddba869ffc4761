"""The ends of a round, and what becomes of its turns: → published | rejected | failed | cancelled."""

from datetime import timedelta
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from ..columns import utc_now
from ..errors import Conflict, LostLease, NotFound
from ..models import RUNNING_ROUNDS, Adapter, Agent, Round, RoundTurn, Training, Turn
from .compare_and_set import move
from .leases import Lease, acquire_lease, held_round

MAX_ATTEMPTS = 5  # leases of one round before it is given up


def publish(
    session: Session,
    lease: Lease,
    adapter_id: str,
    *,
    path: str,
    sha256: str,
    gate: dict[str, Any],
    metrics: dict[str, Any],
) -> None:
    """Make the candidate live if its parent still is: the round's only effect on serving.

    Raises:
        LostLease: another worker holds the round.
        Conflict: the live adapter changed during the round, the agent was frozen, or the round shall be
            cancelled; the caller rejects it.
    """
    # Locked, so that nobody asks to cancel, as erasing does, between this look and the end of the round.
    row = session.get_one(Round, lease.round_id, populate_existing=True, with_for_update=True)
    if row.cancel_requested:
        raise Conflict("cancelled on request", code="cancelled")
    held = held_round(lease).values(
        state="published",
        gate=gate,
        metrics=metrics,
        adapter_id=adapter_id,
        progress=1.0,
        finished_at=utc_now(),
    )
    if not move(session, held):
        raise LostLease(f"round {lease.round_id} was taken over")
    swapped = move(
        session,
        update(Agent)
        .where(
            col(Agent.id) == row.agent_id,
            col(Agent.live_adapter_id).is_not_distinct_from(row.parent_adapter_id),
            col(Agent.frozen).is_(False),
        )
        .values(live_adapter_id=adapter_id),
    )
    if not swapped:
        raise Conflict(
            "the live adapter changed, or the agent was frozen, while this round ran", code="live_changed"
        )
    adapter = session.get_one(Adapter, adapter_id)
    adapter.state, adapter.path, adapter.sha256, adapter.gate = "published", path, sha256, gate
    session.add(adapter)
    session.flush()
    _reject_candidates(session, lease.round_id, None)  # of attempts that were killed
    for used in session.exec(select(RoundTurn).where(RoundTurn.round_id == lease.round_id)).all():
        session.add(Training(signal_id=used.signal_id, round_id=lease.round_id, turn_id=used.turn_id))
    session.flush()
    _release(session, lease.round_id, state="trained")


def reject(
    session: Session,
    lease: Lease,
    reason: str,
    *,
    adapter_id: str | None,
    gate: dict[str, Any],
    metrics: dict[str, Any],
    backoff_s: float,
) -> None:
    """The gate said no: turns come back once, after a pause, and the second time are excluded."""
    held = held_round(lease).values(
        state="rejected",
        gate=gate,
        metrics=metrics,
        adapter_id=adapter_id,
        error=reason,
        progress=1.0,
        finished_at=utc_now(),
    )
    if not move(session, held):
        raise LostLease(f"round {lease.round_id} was taken over")
    _reject_candidates(session, lease.round_id, gate)
    for turn in session.exec(select(Turn).where(Turn.round_id == lease.round_id)).all():
        turn.times_rejected += 1
        turn.claimable_at = utc_now() + timedelta(seconds=backoff_s)
        if turn.times_rejected > 1:
            turn.excluded_reason = "rejected twice"
        session.add(turn)
    session.flush()
    session.execute(
        update(Turn)
        .where(
            col(Turn.round_id) == lease.round_id, col(Turn.state) == "claimed", col(Turn.times_rejected) > 1
        )
        .values(state="excluded", round_id=None)
    )
    _release(session, lease.round_id, state="judged")


def fail(session: Session, lease: Lease, error: str, metrics: dict[str, Any] | None = None) -> None:
    """The round could not be finished: its turns go back as they were."""
    values: dict[str, Any] = {"state": "failed", "error": error, "finished_at": utc_now()}
    if metrics is not None:
        values["metrics"] = metrics
    if not move(session, held_round(lease).values(**values)):
        raise LostLease(f"round {lease.round_id} was taken over")
    _reject_candidates(session, lease.round_id, None)
    _release(session, lease.round_id, state="judged")


def fail_left_behind(session: Session, round_id: str, owner: str, error: str) -> bool:
    """Fail a round whose process ended without ending it, holding it as `owner` or before it could begin.

    Returns false, and changes nothing, if the round is over or somebody else's.

    Raises:
        LostLease: somebody took it just now.
    """
    row = session.get(Round, round_id, with_for_update=True, populate_existing=True)
    if row is None or row.state not in RUNNING_ROUNDS:
        return False
    if row.lease_owner == owner:
        lease = Lease(round_id, row.fence, owner, 0)
    elif row.lease_expires_at is None or row.lease_expires_at < utc_now():
        lease = acquire_lease(session, round_id, owner, 0)
    else:
        return False
    fail(session, lease, error)
    return True


def request_cancel(session: Session, round_id: str) -> Round:
    """Ask a running round to stop; one that nobody works on is cancelled here and now."""
    row = session.get(Round, round_id, with_for_update=True)
    if row is None:
        raise NotFound(f"no round {round_id}")
    if row.state not in RUNNING_ROUNDS:
        raise Conflict(f"round {round_id} is already {row.state}")
    row.cancel_requested = True
    session.add(row)
    session.flush()
    if row.lease_expires_at is None or row.lease_expires_at < utc_now():
        cancel(session, Lease(round_id, row.fence, "", 0))
    return session.get_one(Round, round_id, populate_existing=True)


def cancel(session: Session, lease: Lease) -> None:
    """End a round on request: its turns go back."""
    if not move(session, held_round(lease).values(state="cancelled", finished_at=utc_now())):
        raise LostLease(f"round {lease.round_id} was taken over")
    _reject_candidates(session, lease.round_id, None)
    _release(session, lease.round_id, state="judged")


def give_up_abandoned(session: Session) -> list[str]:
    """Fail rounds whose holders died too often; returns their ids."""
    ended = []
    for row in session.exec(
        select(Round).where(
            col(Round.state).in_(RUNNING_ROUNDS),
            Round.fence >= MAX_ATTEMPTS,
            col(Round.lease_expires_at) < utc_now(),
        )
    ).all():
        fail(session, Lease(row.id, row.fence, "", 0), f"its worker died {row.fence} times")
        ended.append(row.id)
    return ended


def _release(session: Session, round_id: str, *, state: str) -> None:
    """Let the turns of an ended round go; what new evidence reached meanwhile is judged again."""
    mine = (col(Turn.round_id) == round_id, col(Turn.state) == "claimed")
    session.execute(
        update(Turn)
        .where(*mine, col(Turn.observed_at) != col(Turn.judged_at))
        .values(state="observed", round_id=round_id if state == "trained" else None)
    )
    session.execute(
        update(Turn).where(*mine).values(state=state, round_id=round_id if state == "trained" else None)
    )


def _reject_candidates(session: Session, round_id: str, gate: dict[str, Any] | None) -> None:
    for adapter in session.exec(
        select(Adapter).where(Adapter.round_id == round_id, Adapter.state == "candidate")
    ).all():
        adapter.state, adapter.gate = "rejected", gate
        session.add(adapter)
    session.flush()
