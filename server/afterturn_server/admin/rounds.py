"""`rounds`: what was trained, what is being trained, train now, stop."""

from fastapi import APIRouter
from pydantic import BaseModel
from sqlmodel import Session, col, select

from afterturn_core.errors import NotFound
from afterturn_core.lifecycle import claim_round, request_cancel
from afterturn_core.models import Round
from afterturn_core.round_plan import plan_round

from ..listing import DEFAULT_LIMIT, After, Limit, agents_by_id, find_agent, newest_first
from ..views import Page, RoundView, round_view
from .access import Admitted

router = APIRouter(tags=["rounds"])


class TrainNow(BaseModel):
    """Whom to train."""

    agent: str


@router.get("/rounds")
async def list_rounds(
    gateway: Admitted,
    agent: str | None = None,
    state: str | None = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[RoundView]:
    """Rounds, newest first."""

    def look(session: Session) -> Page[RoundView]:
        statement = select(Round)
        if agent is not None:
            statement = statement.where(Round.agent_id == find_agent(session, agent).id)
        if state is not None:
            statement = statement.where(Round.state == state)
        rows, more = newest_first(session, statement, col(Round.id), after=after, limit=limit)
        agents = agents_by_id(session)
        views = [round_view(session, row, agents[row.agent_id].name) for row in rows]
        return Page(data=views, next=rows[-1].id if more else None)

    return await gateway.read(look)


@router.get("/rounds/{round_id}")
async def show_round(gateway: Admitted, round_id: str) -> RoundView:
    """One round."""
    return await gateway.read(lambda session: _shown(session, round_id))


@router.post("/rounds", status_code=202)
async def train_now(gateway: Admitted, wanted: TrainNow) -> RoundView:
    """Start a round on what waits, however little; 409 if there is nothing, or one is running."""

    def apply(session: Session) -> RoundView:
        agent = find_agent(session, wanted.agent)
        claimed = claim_round(session, agent, plan_round(gateway.settings, agent))
        return round_view(session, claimed, agent.name)

    view = await gateway.write(apply)
    gateway.wake_trainer(view.id)
    return view


@router.post("/rounds/{round_id}/cancel", status_code=202)
async def cancel_round(gateway: Admitted, round_id: str) -> RoundView:
    """Ask a round to stop; its turns go back to those that wait."""

    def apply(session: Session) -> RoundView:
        request_cancel(session, round_id)
        return _shown(session, round_id)

    return await gateway.write(apply)


def _shown(session: Session, round_id: str) -> RoundView:
    row = session.get(Round, round_id)
    if row is None:
        raise NotFound(f"There is no round {round_id[:64]}.")
    return round_view(session, row, agents_by_id(session)[row.agent_id].name)
