"""When an agent starts a round by itself."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlmodel import Session, col, or_, select

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now, written_out
from afterturn_core.database import Database
from afterturn_core.errors import Conflict
from afterturn_core.models import RUNNING_ROUNDS, Agent, Round, Turn
from afterturn_core.round_plan import plan_round
from afterturn_core.settings import Settings

FAILED_PAUSE_S: Final = 30.0  # an engine that restarts is back by then
LONGEST_FACTOR: Final = 64


@dataclass(frozen=True)
class Past:
    """How an agent's latest rounds ended: `streak` of them in a row without an adapter."""

    streak: int = 0
    last_state: str | None = None
    last_ended: datetime | None = None
    running: bool = False


def is_due(
    settings: Settings, agent: Agent, waiting: int, oldest: datetime, past: Past, now: datetime
) -> bool:
    """Whether a round shall start: enough signals or a long wait, and not too soon after a bad round.

    The pause after a rejected or cancelled round is `round_backoff_s`, after a failed one at most 30 s;
    it doubles with every further one in a row.
    """
    if agent.frozen or past.running or waiting == 0:
        return False
    enough = waiting >= (agent.min_signals or settings.min_signals)
    if not enough and now - oldest < timedelta(seconds=settings.max_wait_s):
        return False
    if past.last_ended is None or past.streak == 0:
        return True
    base = settings.round_backoff_s
    if past.last_state == "failed":
        base = min(base, FAILED_PAUSE_S)
    pause = base * min(2.0 ** (past.streak - 1), LONGEST_FACTOR)
    return now - past.last_ended >= timedelta(seconds=pause)


def start_due_rounds(database: Database, settings: Settings) -> list[str]:
    """Claim a round for every agent that is due; returns the rounds' ids."""
    started = []
    for agent_id in _due_agents(database, settings):
        try:
            with database.write() as session:
                agent = session.get_one(Agent, agent_id)
                started.append(lifecycle.claim_round(session, agent, plan_round(settings, agent)).id)
        except Conflict:
            # Somebody else started it, froze the agent or took its turns between our two transactions.
            continue
    return started


def _due_agents(database: Database, settings: Settings) -> list[str]:
    now = utc_now()
    with database.read() as session:
        agents = session.exec(select(Agent).where(col(Agent.frozen).is_(False))).all()
        return [agent.id for agent in agents if _due(session, settings, agent, now)]


def _due(session: Session, settings: Settings, agent: Agent, now: datetime) -> bool:
    # No more of what waits than starts a round: an agent that cannot train may have gathered any number.
    waiting = session.exec(
        select(Turn.judged_at)
        .where(
            Turn.agent_id == agent.id,
            Turn.state == written_out("judged"),
            col(Turn.held_out).is_(False),
            or_(col(Turn.claimable_at).is_(None), col(Turn.claimable_at) <= now),
        )
        .order_by(col(Turn.judged_at), Turn.id)
        .limit(agent.min_signals or settings.min_signals)
    ).all()
    if not waiting:
        return False
    return is_due(settings, agent, len(waiting), waiting[0] or now, _past(session, agent.id), now)


def _past(session: Session, agent_id: str) -> Past:
    # Ids sort by time of creation.
    rounds = session.exec(
        select(Round.state, Round.finished_at)
        .where(Round.agent_id == agent_id)
        .order_by(col(Round.id).desc())
        .limit(8)
    ).all()
    if not rounds:
        return Past()
    state, ended = rounds[0]
    if state in RUNNING_ROUNDS:
        return Past(running=True)
    streak = 0
    for earlier, _ in rounds:
        if earlier == "published":
            break
        streak += 1
    return Past(streak, state, ended)
