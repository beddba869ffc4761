"""Sessions: found by the client's name for them or by ours, opened and woken by each turn."""

from sqlalchemy import bindparam, insert, update
from sqlmodel import Session, select

from afterturn_core.columns import utc_now
from afterturn_core.models import Conversation

from .place import Place

_SESSIONS = Conversation.__table__  # type: ignore[attr-defined]
_ADD_SESSION = insert(_SESSIONS)
_SEEN = (
    update(_SESSIONS)
    .where(_SESSIONS.c.id == bindparam("session"))
    .values(last_seen_at=bindparam("now"), settled=False, ended_at=None)
)


def open_session(session: Session, agent_id: str, key_id: str, place: Place) -> str:
    """Make sure the session is there and awake; returns its id.

    Two first requests under one name at once meet here: the second joins the first one's session.
    """
    connection, now = session.connection(), utc_now()
    session_id = place.session_id
    if place.new_session and place.external_id is not None:
        named = named_session(session, key_id, place.external_id)
        session_id = session_id if named is None else named.id
    expected = not place.new_session or session_id != place.session_id
    if expected and connection.execute(_SEEN, {"session": session_id, "now": now}).rowcount:
        return session_id
    connection.execute(
        _ADD_SESSION,
        {
            "id": session_id,
            "agent_id": agent_id,
            "key_id": key_id,
            "external_id": place.external_id,
            "created_at": now,
            "last_seen_at": now,
            "settled": False,
        },
    )
    return session_id


def named_session(session: Session, key_id: str, name: str) -> Conversation | None:
    """The session of this key that the client means: by its own name for it, or by ours."""
    own = session.exec(
        select(Conversation).where(Conversation.key_id == key_id, Conversation.external_id == name)
    ).one_or_none()
    if own is not None:
        return own
    ours = session.get(Conversation, name)
    return ours if ours is not None and ours.key_id == key_id else None
