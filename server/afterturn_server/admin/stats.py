"""`stats`: the figures of an install at a glance."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy import exists, func
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from afterturn_core.columns import written_out
from afterturn_core.models import RUNNING_ROUNDS, Adapter, Agent, NextState, Round, Signal, Turn

from ..gateway import Gateway
from ..outage import away, means_away
from ..recording import SIDE
from .access import Admitted
from .figures import Figures

router = APIRouter(tags=["stats"])


class AgentStats(BaseModel):
    """One agent; `waiting_signals` are judged turns that the next round can use."""

    agent: str
    frozen: bool
    live_adapter: str | None
    turns: dict[str, int]
    kinds: dict[str, int]
    signals: dict[str, int]
    disagreements: int
    rounds: dict[str, int]
    adapters: int
    waiting_signals: int
    min_signals: int
    running_round: str | None


class EngineStats(BaseModel):
    """The engine as the gateway sees it."""

    ok: bool
    replicas: list[bool]
    model: str | None
    model_hash: str | None
    max_model_len: int | None


class Stats(BaseModel):
    """Everything."""

    agents: list[AgentStats]
    engine: EngineStats
    waiting_texts: int


@dataclass(frozen=True)
class Counted:
    """What has to be counted through: per agent, by id."""

    agents: Mapping[str, "CountedAgent"]
    waiting_texts: int


@dataclass(frozen=True)
class CountedAgent:
    """Turns by state and kind, their latest signals by verdict, rounds and adapters by state."""

    turns: Mapping[str, int]
    kinds: Mapping[str, int]
    signals: Mapping[str, int]
    disagreements: int
    rounds: Mapping[str, int]
    adapters: Mapping[str, int]


def counting(gateway: Gateway) -> Figures[Counted]:
    """The counts of a gateway's database, on a thread of their own: they may take longer than a database that
    answers is waited for."""

    def look() -> Counted:
        try:
            with gateway.database.read() as session:
                return count(session)
        except SQLAlchemyError as error:
            if means_away(error):
                raise away() from error
            raise

    async def counted() -> Counted:
        gateway.outage.check()
        return await asyncio.to_thread(look)

    return Figures(counted)


@router.get("/stats")
async def show_stats(gateway: Admitted, request: Request) -> Stats:
    """Counts per agent, and the state of the engine. With millions of turns counts are some minutes old;
    what waits and what runs is as of now."""
    health = list((await gateway.upstream.health()).values())
    identity = await gateway.upstream.identity() if any(health) else None
    figures = cast("Figures[Counted]", request.app.state.figures)
    counted = await figures.now()
    default = gateway.settings.min_signals

    def look(session: Session) -> Stats:
        agents = session.exec(select(Agent).order_by(Agent.name)).all()
        return Stats(
            agents=[_agent_stats(session, agent, counted.agents.get(agent.id), default) for agent in agents],
            engine=EngineStats(
                ok=any(health),
                replicas=health,
                model=None if identity is None else identity.served_name,
                model_hash=None if identity is None else identity.model_hash,
                max_model_len=None if identity is None else identity.max_model_len,
            ),
            waiting_texts=counted.waiting_texts,
        )

    return await gateway.read(look)


def _agent_stats(
    session: Session, agent: Agent, counted: CountedAgent | None, default_min_signals: int
) -> AgentStats:
    counted = counted or CountedAgent({}, {}, {}, 0, {}, {})  # made since the last count
    live = None if agent.live_adapter_id is None else session.get_one(Adapter, agent.live_adapter_id)
    running = session.exec(
        select(Round.id).where(Round.agent_id == agent.id, col(Round.state).in_(RUNNING_ROUNDS))
    ).first()
    usable = (
        select(func.count())
        .select_from(Turn)
        .where(Turn.agent_id == agent.id, Turn.state == written_out("judged"), col(Turn.held_out).is_(False))
    )
    return AgentStats(
        agent=agent.name,
        frozen=agent.frozen,
        live_adapter=None if live is None else live.name,
        turns=dict(counted.turns),
        kinds=dict(counted.kinds),
        signals=dict(counted.signals),
        disagreements=counted.disagreements,
        rounds=dict(counted.rounds),
        adapters=sum(counted.adapters.values()),
        waiting_signals=session.exec(usable).one(),
        min_signals=agent.min_signals or default_min_signals,
        running_round=running,
    )


def count(session: Session) -> Counted:
    """Count everything, once through the indexes."""
    waiting = select(func.count()).select_from(NextState).where(col(NextState.believed).is_(False))
    return Counted(
        agents={
            agent_id: _count_agent(session, agent_id) for agent_id in session.exec(select(Agent.id)).all()
        },
        waiting_texts=session.exec(waiting).one(),
    )


def _count_agent(session: Session, agent_id: str) -> CountedAgent:
    turns = _counts(session, Turn.state, Turn.agent_id == agent_id)
    side = session.exec(
        select(func.count())
        .select_from(Turn)
        .where(Turn.agent_id == agent_id, Turn.kind == written_out(SIDE))
    ).one()
    kinds = {"main": sum(turns.values()) - side, SIDE: side}
    verdicts = _latest(session, agent_id, Signal.verdict)
    return CountedAgent(
        turns=turns,
        kinds={kind: number for kind, number in kinds.items() if number},
        signals={
            "none" if verdict is None else f"{verdict:+d}".replace("+0", "0"): number
            for verdict, number in verdicts.items()
        },
        disagreements=_latest(session, agent_id, Signal.disagreement).get(True, 0),
        rounds=_counts(session, Round.state, Round.agent_id == agent_id),
        adapters=_counts(session, Adapter.state, Adapter.agent_id == agent_id),
    )


def _latest(session: Session, agent_id: str, column: Any) -> dict[Any, int]:
    """An agent's turns by a column of their latest signal: the one that no later revision follows."""
    later = aliased(Signal)
    followed = select(later.id).where(later.turn_id == Signal.turn_id, later.revision == Signal.revision + 1)
    return _counts(session, column, Signal.agent_id == agent_id, ~exists(followed))


def _counts(session: Session, column: Any, *where: Any) -> dict[Any, int]:
    return dict(session.exec(select(column, func.count()).where(*where).group_by(column)).all())
