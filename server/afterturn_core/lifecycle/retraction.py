"""What is about to be erased takes back what was concluded from it."""

from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import Session, col, select

from ..columns import utc_now
from ..models import RUNNING_ROUNDS, Adapter, Agent, NextState, Round, RoundTurn, Turn
from .adapters import mark_adapters
from .outcomes import request_cancel


def taint(session: Session, turn_ids: Sequence[str]) -> list[Adapter]:
    """These turns are about to be erased: adapters that learned from them, and all that descend from those,
    are never live again, and rounds that are learning from them now shall stop.

    An agent whose live adapter is among them falls back to the newest one before it that is not, else to the
    base model; a pin on one is taken off. Returns the adapters that were marked.
    """
    used = select(RoundTurn.round_id).where(col(RoundTurn.turn_id).in_(turn_ids)).distinct()
    marked: list[Adapter] = []
    for round_id in session.exec(used).all():
        if session.get_one(Round, round_id).state in RUNNING_ROUNDS:
            request_cancel(session, round_id)
        marked += mark_adapters(session, round_id, "tainted")
    session.flush()
    for agent_id in dict.fromkeys(adapter.agent_id for adapter in marked):
        _fall_back(session, session.get_one(Agent, agent_id))
    return marked


def _fall_back(session: Session, agent: Agent) -> None:
    """Leave tainted adapters for the newest clean one among their ancestors."""
    if agent.pinned_adapter_id is not None:
        pinned = session.get_one(Adapter, agent.pinned_adapter_id)
        if "tainted" in pinned.marks:
            agent.pinned_adapter_id = None
    while agent.live_adapter_id is not None:
        live = session.get_one(Adapter, agent.live_adapter_id)
        if "tainted" not in live.marks and live.state == "published":
            break
        agent.live_adapter_id = live.parent_id
    session.add(agent)
    session.flush()


def take_back_evidence(session: Session, turn_ids: Sequence[str]) -> None:
    """What was said after these turns is erased, and so are their signals: what evidence is left is judged
    anew, and a turn without any waits for some."""
    believed = select(NextState.turn_id).where(
        col(NextState.turn_id).in_(turn_ids), col(NextState.believed), col(NextState.withdrawn).is_(False)
    )
    mine = col(Turn.id).in_(turn_ids)
    fresh = {"signal_revision": 0, "round_id": None, "judged_at": None, "claimable_at": None}
    session.execute(update(Turn).where(mine).values(**fresh))
    told = mine & col(Turn.id).in_(believed)
    alive = col(Turn.state) != "excluded"
    session.execute(update(Turn).where(mine, alive).values(state="open", observed_at=None))
    session.execute(update(Turn).where(told, alive).values(state="observed", observed_at=utc_now()))
