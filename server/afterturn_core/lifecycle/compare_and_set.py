"""The one way in which a state moves: a change that finds its row as it was, or changes nothing."""

from sqlalchemy import CursorResult, Update
from sqlmodel import Session


def move(session: Session, statement: Update) -> bool:
    """Make a change whose `WHERE` names the state to move from; whether any row was in it."""
    result = session.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount > 0
