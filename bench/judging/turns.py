"""Ten thousand observed turns of agent-sized conversations, which can be made to wait again and again."""

import json
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from sqlalchemy import bindparam, delete, func, text, update
from sqlmodel import col, select

from afterturn_core.columns import utc_now, written_out
from afterturn_core.database import Database
from afterturn_core.models import Adapter, Agent, NextState, Round, RoundTurn, Signal, Training, Turn
from bench.growth.conversations import TURNS
from bench.growth.seeding import seed

REACTIONS = Path(__file__).parents[2] / "tests" / "data" / "next_states.jsonl"
LONG_TOOL_TEXTS = 2  # one in so many tool results stays as long as agents' are


@dataclass(frozen=True)
class ObservedTurns:
    """A filled database and the turns in it that have a next state; nothing else happens to them."""

    database: Database
    ids: tuple[str, ...]

    def wait(self) -> None:
        """Take every signal away: the turns wait for a verdict, observed just now."""
        with self.database.write() as session:
            session.execute(delete(Signal))
            session.execute(
                update(Turn)
                .where(col(Turn.id).in_(select(NextState.turn_id)))
                .values(state="observed", signal_revision=0, judged_at=None, observed_at=utc_now())
            )
        if self.database.is_postgresql:  # as autovacuum does by and by
            with self.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE turns, signals"))

    def waiting(self) -> int:
        """How many have no verdict yet."""
        with self.database.read() as session:
            waiting = select(func.count()).select_from(Turn).where(Turn.state == written_out("observed"))
            return session.exec(waiting).one()

    def outcome(self) -> dict[str, int]:
        """Turns by state, and the signals there are: one each, or something was judged twice."""
        with self.database.read() as session:
            states = session.exec(
                select(Turn.state, func.count())
                .where(col(Turn.id).in_(select(NextState.turn_id)))
                .group_by(Turn.state)
            ).all()
            signals = session.exec(select(func.count()).select_from(Signal)).one()
        return {**dict(states), "signals": signals}


def observed_turns(database: Database, count: int) -> ObservedTurns:
    """Fill an empty, migrated database. What users and tools say is that of the labelled next states, so that
    the rules have something to read."""
    conversations = -(-count // (TURNS - 1))  # nothing came after the last turn of one
    seed(database, conversations * TURNS, lambda _: None)
    with database.write() as session:
        for table in (Training, RoundTurn, Signal, Round, Adapter):
            session.execute(delete(table))
        session.execute(update(Agent).values(live_adapter_id=None, frozen=True))  # no rounds meanwhile
        session.execute(update(Turn).values(round_id=None, kind="main", state="open", excluded_reason=None))
        rows = session.exec(
            select(NextState.id, NextState.turn_id, NextState.role).order_by(NextState.turn_id)
        ).all()
        surplus = [name for name, _, _ in rows[count:]]
        for name in surplus:
            session.execute(delete(NextState).where(col(NextState.id) == name))
        said = {role: cycle(texts) for role, texts in _reactions().items()}
        changed = [
            {"row": name, "words": next(said[role])}
            for number, (name, _, role) in enumerate(rows[:count])
            if role == "user" or number % LONG_TOOL_TEXTS
        ]
        table = NextState.__table__  # type: ignore[attr-defined]  # SQLModel makes it
        session.connection().execute(
            update(table).where(table.c.id == bindparam("row")).values(text=bindparam("words")), changed
        )
    return ObservedTurns(database, tuple(turn_id for _, turn_id, _ in rows[:count]))


def _reactions() -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {"user": [], "tool": []}
    for line in REACTIONS.read_text("utf-8").splitlines():
        row = json.loads(line)
        texts[row["next_role"]].append(row["next_state"])
    return texts
