"""Listings: newest first, a page at a time."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query
from sqlmodel import Session, select
from sqlmodel.sql.expression import SelectOfScalar

from afterturn_core.errors import NotFound
from afterturn_core.models import Agent

R = TypeVar("R")

Limit = Annotated[int, Query(ge=1, le=1000, description="Entries of a page")]
After = Annotated[str | None, Query(max_length=256, description="`next` of the page before")]
DEFAULT_LIMIT = 50
MAX_INT = 2**31 - 1  # what an integer column holds on every database


def newest_first(
    session: Session, statement: SelectOfScalar[R], identity: Any, *, after: str | None, limit: int
) -> tuple[Sequence[R], bool]:
    """One page of `statement`, ordered by the column `identity` downwards, and whether more follow."""
    if after is not None:
        statement = statement.where(identity < after)
    rows = session.exec(statement.order_by(identity.desc()).limit(limit + 1)).all()
    return rows[:limit], len(rows) > limit


def newest_of(
    session: Session,
    statements: Iterable[SelectOfScalar[R]],
    identity: Any,
    *,
    after: str | None,
    limit: int,
) -> tuple[Sequence[R], bool]:
    """One page of several statements together. Each is answered by an index in its own order, where for all
    of them at once there is none."""
    found: list[R] = []
    for statement in statements:
        found += newest_first(session, statement, identity, after=after, limit=limit + 1)[0]
    found.sort(key=lambda row: str(getattr(row, identity.key)), reverse=True)
    return found[:limit], len(found) > limit


def find_agent(session: Session, name: str) -> Agent:
    """The agent of a name.

    Raises:
        NotFound: there is none.
    """
    agent = session.exec(select(Agent).where(Agent.name == name)).one_or_none()
    if agent is None:
        raise NotFound(f"There is no agent {name[:64]}.", param="agent")
    return agent


def agents_by_id(session: Session) -> dict[str, Agent]:
    """Every agent; an install has few."""
    return {agent.id: agent for agent in session.exec(select(Agent)).all()}
