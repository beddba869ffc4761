"""Erasing on request: what was named is found, and removed in transactions that keep nobody waiting."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from pydantic import BaseModel
from sqlmodel import Session, col, select

from afterturn_core.columns import utc_now
from afterturn_core.erasure import BATCH, Erasure, erase_empty_sessions, erase_turns, with_descendants
from afterturn_core.models import Adapter, Agent, Conversation, Turn

from .gateway import Gateway

Find = Callable[[Session], Sequence[str]]


class Receipt(BaseModel):
    """What was erased. `tainted_adapters` learned from it and are never live again; `live` says what the
    agents concerned serve now."""

    turns: int
    sessions: int
    feedback: int
    messages: int
    tainted_adapters: list[str]
    live: dict[str, str]
    erased_at: datetime


async def erase(gateway: Gateway, find_turns: Find, find_sessions: Find) -> Receipt:
    """Erase turns with all that go on from them, then the sessions that have none left.

    `find_turns` and `find_sessions` look up what was named, and raise NotFound if there is no such thing.
    """
    turn_ids = await gateway.read(lambda session: with_descendants(session, find_turns(session)))
    agent_ids = await gateway.read(lambda session: _agents_of(session, turn_ids))
    session_ids = set(await gateway.read(find_sessions))
    session_ids.update(await gateway.read(lambda session: _sessions_of(session, turn_ids)))
    erased = Erasure()
    for start in range(0, len(turn_ids), BATCH):
        erased.add(await gateway.write(partial(_erase_part, turn_ids[start : start + BATCH])))
    erased.sessions = await gateway.write(lambda session: erase_empty_sessions(session, session_ids))
    live = await gateway.read(lambda session: _live(session, agent_ids))
    return Receipt(
        turns=erased.turns,
        sessions=erased.sessions,
        feedback=erased.feedback,
        messages=erased.messages,
        tainted_adapters=list(dict.fromkeys(erased.tainted)),
        live=live,
        erased_at=utc_now(),
    )


def _erase_part(turn_ids: Sequence[str], session: Session) -> Erasure:
    """Erase some, and what was recorded since as going on from them."""
    erased = Erasure()
    turn_ids = with_descendants(session, turn_ids)
    for start in range(0, len(turn_ids), BATCH):
        erased.add(erase_turns(session, turn_ids[start : start + BATCH]))
    return erased


def nothing(_session: Session) -> Sequence[str]:
    """No sessions but those of the turns."""
    return ()


def turns_of_sessions(session: Session, session_ids: Sequence[str]) -> list[str]:
    """Ids of every turn in these sessions."""
    return list(session.exec(select(Turn.id).where(col(Turn.session_id).in_(session_ids))).all())


def _sessions_of(session: Session, turn_ids: Sequence[str]) -> set[str]:
    return _values(session, turn_ids, Turn.session_id)


def _agents_of(session: Session, turn_ids: Sequence[str]) -> set[str]:
    return _values(session, turn_ids, Turn.agent_id)


def _values(session: Session, turn_ids: Sequence[str], column: str) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(turn_ids), BATCH):
        part = turn_ids[start : start + BATCH]
        found.update(session.exec(select(column).where(col(Turn.id).in_(part)).distinct()).all())
    return found


def _live(session: Session, agent_ids: set[str]) -> dict[str, str]:
    live: dict[str, str] = {}
    for agent in session.exec(select(Agent).where(col(Agent.id).in_(agent_ids)).order_by(Agent.name)).all():
        adapter = None if agent.live_adapter_id is None else session.get_one(Adapter, agent.live_adapter_id)
        live[agent.name] = "base" if adapter is None else adapter.name
    return live


def sessions_called(session: Session, name: str) -> list[str]:
    """Ids of the sessions of this id, or of this name of a client's."""
    statement = select(Conversation.id).where(
        (col(Conversation.id) == name) | (col(Conversation.external_id) == name)
    )
    return list(session.exec(statement).all())
