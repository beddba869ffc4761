"""A row that many requests ask for alike, like that of their key: looked up once for all that share a
transaction which only looks."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from sqlalchemy import Row, Select
from sqlmodel import Session

Found: TypeAlias = Row[*tuple[Any, ...]]

_FOUND = "found"  # where a session keeps what its transaction has found


def share_lookups(session: Session) -> None:
    """Let those who look up the same in this session share what was found.

    For a transaction that changes nothing and began after all of them had asked: what they get is then
    never older than their request.
    """
    session.info[_FOUND] = {}


def look_up(session: Session, statement: Select[Any], values: Mapping[str, str]) -> Found | None:
    """The row of a statement that finds one at most, given the values of its parameters."""
    shared: dict[tuple[Select[Any], tuple[str, ...]], Found | None] | None = session.info.get(_FOUND)
    if shared is None:
        return session.connection().execute(statement, values).one_or_none()
    place = statement, tuple(values.values())
    if place not in shared:
        shared[place] = session.connection().execute(statement, values).one_or_none()
    return shared[place]
