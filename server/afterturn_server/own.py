"""`/v1/turns` and `/v1/sessions`: what an agent's key may see and close of its own."""

from datetime import datetime

from pydantic import BaseModel
from sqlalchemy import func
from sqlmodel import Session, col, select
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import NotFound, RequestError
from afterturn_core.lifecycle import settle_session
from afterturn_core.models import Conversation, Turn

from .caller import Caller
from .erasing import erase, nothing, turns_of_sessions
from .feedback import find_session
from .gateway import Gateway
from .listing import DEFAULT_LIMIT, agents_by_id, newest_first
from .views import Page, turn_view


class SessionView(BaseModel):
    """A session; `external_id` is the client's own name for it."""

    id: str
    external_id: str | None
    agent: str
    created_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None
    turns: int


class OwnRoutes:
    """The routes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def turn(self, request: Request) -> Response:
        """One turn."""
        caller = await self._gateway.caller(request, "feedback")
        turn_id = request.path_params["turn_id"]

        def look(session: Session) -> str:
            turn = _own_turn(session, caller, turn_id)
            return turn_view(session, turn, agents_by_id(session)[turn.agent_id].name).model_dump_json()

        return Response(await self._gateway.read(look), media_type="application/json")

    async def erase_turn(self, request: Request) -> Response:
        """Erase a turn, and all that go on from it."""
        caller = await self._gateway.caller(request, "feedback")
        turn_id = request.path_params["turn_id"]
        receipt = await erase(
            self._gateway, lambda session: [_own_turn(session, caller, turn_id).id], nothing
        )
        return Response(receipt.model_dump_json(), media_type="application/json")

    async def erase_session(self, request: Request) -> Response:
        """Erase a session with its turns, and what goes on from them elsewhere."""
        caller = await self._gateway.caller(request, "feedback")
        name = request.path_params["session_id"]

        def find(session: Session) -> list[str]:
            return [own_session(session, caller, name).id]

        receipt = await erase(self._gateway, lambda session: turns_of_sessions(session, find(session)), find)
        return Response(receipt.model_dump_json(), media_type="application/json")

    async def sessions(self, request: Request) -> Response:
        """The sessions of the caller's agent, newest first."""
        caller = await self._gateway.caller(request, "feedback")
        limit = _limit(request)
        after = request.query_params.get("after")

        def look(session: Session) -> str:
            statement = select(Conversation)
            if not caller.is_admin:
                statement = statement.where(Conversation.agent_id == caller.agent_id)
            rows, more = newest_first(session, statement, col(Conversation.id), after=after, limit=limit)
            agents = agents_by_id(session)
            views = [session_view(session, row, agents[row.agent_id].name) for row in rows]
            return Page(data=views, next=rows[-1].id if more else None).model_dump_json()

        return Response(await self._gateway.read(look), media_type="application/json")

    async def end(self, request: Request) -> Response:
        """Close a session: what was said last in it counts now."""
        caller = await self._gateway.caller(request, "feedback")
        name = request.path_params["session_id"]

        def close(session: Session) -> tuple[SessionView, list[str]]:
            row = own_session(session, caller, name)
            observed = settle_session(session, row.id, ended=True)
            session.flush()
            return session_view(session, row, agents_by_id(session)[row.agent_id].name), observed

        view, observed = await self._gateway.write(close)
        self._gateway.wake_judge(observed)
        return Response(view.model_dump_json(), media_type="application/json")


def _own_turn(session: Session, caller: Caller, turn_id: str) -> Turn:
    turn = session.get(Turn, turn_id)
    if turn is None or not (caller.is_admin or turn.agent_id == caller.agent_id):
        raise NotFound(f"There is no turn {turn_id[:64]}.")
    return turn


def own_session(session: Session, caller: Caller, name: str) -> Conversation:
    """A session of the caller's agent.

    Raises:
        NotFound: there is none of that name.
    """
    row = find_session(session, caller, name)
    if row is None:
        raise NotFound(f"There is no session {name[:64]}.")
    return row


def session_view(session: Session, row: Conversation, agent: str) -> SessionView:
    """A session of the agent of this name, as the API shows it."""
    turns = session.exec(select(func.count()).select_from(Turn).where(Turn.session_id == row.id)).one()
    return SessionView(
        id=row.id,
        external_id=row.external_id,
        agent=agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
        ended_at=row.ended_at,
        turns=turns,
    )


def _limit(request: Request) -> int:
    given = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 1000:
        raise RequestError("limit: between 1 and 1000", param="limit")
    return int(given)
