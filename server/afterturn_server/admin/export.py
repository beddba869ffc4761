"""`export`: an agent's turns as JSON lines, oldest first."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from sqlmodel import Session, col, select

from afterturn_core.models import Turn

from ..gateway import Gateway
from ..listing import find_agent
from ..views import turn_view
from .access import Admitted

router = APIRouter(tags=["export"])

BATCH = 50


@router.get("/export", response_class=StreamingResponse)
async def export(gateway: Admitted, agent: str) -> StreamingResponse:
    """Every turn of an agent, one JSON object a line, in the shape of `GET turns`."""
    agent_id = await gateway.read(lambda session: find_agent(session, agent).id)
    return StreamingResponse(_lines(gateway, agent_id, agent), media_type="application/x-ndjson")


async def _lines(gateway: Gateway, agent_id: str, name: str) -> AsyncIterator[str]:
    after = ""
    while True:

        def batch(session: Session, after: str = after) -> tuple[str, str | None]:
            turns = session.exec(
                select(Turn)
                .where(Turn.agent_id == agent_id, col(Turn.id) > after)
                .order_by(Turn.id)
                .limit(BATCH)
            ).all()
            lines = [turn_view(session, turn, name).model_dump_json() + "\n" for turn in turns]
            return "".join(lines), turns[-1].id if turns else None

        lines, last = await gateway.read(batch)
        if last is None:
            return
        yield lines
        after = last
