"""`erase`: data that must go, whoever asks for it."""

from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from sqlmodel import Session, col, select

from afterturn_core.errors import NotFound, RequestError
from afterturn_core.models import Conversation, Turn

from ..erasing import Receipt, erase, sessions_called, turns_of_sessions
from ..listing import find_agent
from ..turn_options import stored_user
from .access import Admitted

router = APIRouter(tags=["erase"])


class Target(BaseModel):
    """Exactly one of the four. `session_id` is ours or the client's own, `client_user` what a client called
    the person that it spoke with."""

    model_config = ConfigDict(extra="forbid")

    agent: str | None = Field(None, min_length=1)
    session_id: str | None = Field(None, min_length=1)
    turn_id: str | None = Field(None, min_length=1)
    client_user: str | None = Field(None, min_length=1)


@router.post("/erase")
async def erase_data(gateway: Admitted, target: Target) -> Receipt:
    """Erase turns with all that go on from them, their sessions, feedback and signals. Adapters that learned
    from them are tainted, and an agent that serves one falls back to the newest clean one."""
    if len(target.model_dump(exclude_none=True)) != 1:
        raise RequestError("Give exactly one of agent, session_id, turn_id, client_user.", param="turn_id")
    return await erase(
        gateway, lambda session: _turns(session, target), lambda session: _sessions(session, target)
    )


def _turns(session: Session, target: Target) -> Sequence[str]:
    wanted = select(Turn.id)
    if target.agent is not None:
        wanted = wanted.where(Turn.agent_id == find_agent(session, target.agent).id)
    elif target.turn_id is not None:
        wanted = wanted.where(Turn.id == target.turn_id)
    elif target.client_user is not None:
        wanted = wanted.where(Turn.client_user == stored_user(target.client_user))
    else:
        return turns_of_sessions(session, _sessions(session, target))
    found = session.exec(wanted).all()
    if not found and target.agent is None:
        raise NotFound("There is nothing stored of that.")
    return found


def _sessions(session: Session, target: Target) -> Sequence[str]:
    if target.agent is not None:
        owner = find_agent(session, target.agent).id
        return session.exec(select(Conversation.id).where(col(Conversation.agent_id) == owner)).all()
    if target.session_id is None:
        return ()
    found = sessions_called(session, target.session_id)
    if not found:
        raise NotFound("There is nothing stored of that.", param="session_id")
    return found
