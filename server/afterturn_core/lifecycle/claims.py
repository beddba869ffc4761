"""Which turns a round learns from, and its beginning: turns judged → claimed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import or_
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from ..columns import utc_now, written_out
from ..errors import Conflict
from ..ids import new_id
from ..models import RUNNING_ROUNDS, Adapter, Agent, EngineModel, Round, RoundTurn, Signal, Turn
from ..sources import sources_of, within_share

WINDOW = 4  # rounds' worth of waiting turns among which a balance of sources is looked for
HELD_OUT_SHARE = 10  # one turn in ten is kept for the gate and never trained


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """What a new round shall do. `source_share`: how much of it one of several sources may make up."""

    objective: str
    max_turns: int
    source_share: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)


def is_held_out(turn_id: str) -> bool:
    """Whether a turn belongs to the tenth that is never trained: fixed by its id."""
    return int.from_bytes(hashlib.sha256(turn_id.encode()).digest()[:4]) % HELD_OUT_SHARE == 0


def served_base(session: Session) -> str | None:
    """The hash of the base model that serves now, as a gateway last saw it; `None` before any did."""
    newest = select(EngineModel.model_hash).order_by(col(EngineModel.seen_at).desc()).limit(1)
    return session.exec(newest).one_or_none()


def claimable(session: Session, agent_id: str, limit: int) -> list[Turn]:
    """Judged turns of an agent that a round may use now, oldest verdict first.

    Turns that another base model sampled wait until that one serves again.
    """
    base = served_base(session)
    return list(
        session.exec(
            select(Turn)
            .where(
                Turn.agent_id == agent_id,
                Turn.state == written_out("judged"),
                col(Turn.held_out).is_(False),
                or_(col(Turn.claimable_at).is_(None), col(Turn.claimable_at) <= utc_now()),
                True if base is None else Turn.model_hash == base,
            )
            .order_by(col(Turn.judged_at), Turn.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).all()
    )


def claim_round(session: Session, agent: Agent, plan: RoundPlan) -> Round:
    """Fix the turns of a new round: judged → claimed.

    Raises:
        Conflict: the agent is frozen, has a round running, or nothing to train on; or its live adapter
            belongs to another base model than the one that serves now.
    """
    if agent.frozen:
        raise Conflict(f"agent {agent.name} is frozen: it serves and never trains")
    _check_base(session, agent)
    running = session.exec(
        select(Round).where(Round.agent_id == agent.id, col(Round.state).in_(RUNNING_ROUNDS))
    ).first()
    if running is not None:
        raise Conflict(f"round {running.id} of agent {agent.name} is still {running.state}")
    waiting = claimable(session, agent.id, WINDOW * plan.max_turns)
    turns = _balanced(session, waiting, plan)
    if not turns:
        raise Conflict(f"agent {agent.name} has no judged turns that wait for training")
    signals = [
        session.exec(
            select(Signal).where(Signal.turn_id == turn.id, Signal.revision == turn.signal_revision)
        ).one()
        for turn in turns
    ]
    row = Round(
        id=new_id("round"),
        agent_id=agent.id,
        state="claimed",
        objective=plan.objective,
        parent_adapter_id=agent.live_adapter_id,
        turn_ids=[turn.id for turn in turns],
        settings=plan.settings,
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(f"another round of agent {agent.name} has just started") from None
    for turn, signal in zip(turns, signals, strict=True):
        turn.state, turn.round_id = "claimed", row.id
        session.add(turn)
        session.add(RoundTurn(round_id=row.id, turn_id=turn.id, signal_id=signal.id))
    session.flush()
    return row


def _balanced(session: Session, waiting: Sequence[Turn], plan: RoundPlan) -> list[Turn]:
    by_id = {turn.id: turn for turn in waiting}
    chosen = within_share(list(by_id), sources_of(session, waiting), plan.source_share, plan.max_turns)
    return [by_id[turn_id] for turn_id in chosen]


def _check_base(session: Session, agent: Agent) -> None:
    if agent.live_adapter_id is None or (base := served_base(session)) is None:
        return
    live = session.get_one(Adapter, agent.live_adapter_id)
    if live.model_hash != base:
        raise Conflict(
            f"{live.name} was made for another base model than the one that serves now: set AFTERTURN_MODEL "
            f"back to that one, or roll {agent.name} back to 0 to begin anew on this one",
            code="other_base_model",
        )
