"""Sessions, found by the client's name for them or by ours."""

from sqlmodel import Session, select

from afterturn_core.models import Conversation


def named_session(session: Session, key_id: str, name: str) -> Conversation | None:
    """The session of this key that the client means: by its own name for it, or by ours."""
    own = session.exec(
        select(Conversation).where(Conversation.key_id == key_id, Conversation.external_id == name)
    ).one_or_none()
    if own is not None:
        return own
    ours = session.get(Conversation, name)
    return ours if ours is not None and ours.key_id == key_id else None
