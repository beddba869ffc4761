"""`turns` and `signals`: what was said, what came of it, and what an administrator thinks of it."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, StrictBool, StrictInt
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from afterturn_core.columns import written_out
from afterturn_core.errors import NotFound, RequestError
from afterturn_core.lifecycle import exclude, override_verdict
from afterturn_core.models import Conversation, Signal, Turn

from ..listing import DEFAULT_LIMIT, After, Limit, agents_by_id, find_agent, newest_of
from ..recording import SIDE
from ..views import Page, SignalRow, TurnView, signal_row, turn_view
from .access import Admitted

router = APIRouter(tags=["turns"])

EXCLUDED_BY_ADMIN = "admin"


class TurnChange(BaseModel):
    """Exactly one of the two: a verdict of -1, 0, 1 or null (no verdict), or exclusion from training."""

    verdict: StrictInt | None = None
    excluded: StrictBool | None = None


class Wanted(BaseModel):
    """Which turns."""

    id: str | None = None
    agent: str | None = None
    session_id: str | None = None
    state: str | None = None
    kind: str | None = None
    round_id: str | None = None
    response_id: str | None = None
    after: str | None = None
    limit: int = Query(DEFAULT_LIMIT, ge=1, le=1000)


@router.get("/turns")
async def list_turns(gateway: Admitted, wanted: Annotated[Wanted, Query()]) -> Page[TurnView]:
    """Turns, newest first. `session_id` is ours or the client's own."""

    def look(session: Session) -> Page[TurnView]:
        agents = agents_by_id(session)
        statements = [_matching(session, wanted)]
        if wanted.agent is None and (wanted.state is not None or wanted.kind is not None):
            statements = [statements[0].where(Turn.agent_id == agent_id) for agent_id in agents]
        rows, more = newest_of(session, statements, col(Turn.id), after=wanted.after, limit=wanted.limit)
        views = [turn_view(session, turn, agents[turn.agent_id].name) for turn in rows]
        return Page(data=views, next=rows[-1].id if more else None)

    return await gateway.read(look)


def _matching(session: Session, wanted: Wanted) -> SelectOfScalar[Turn]:
    statement = select(Turn)
    if wanted.agent is not None:
        statement = statement.where(Turn.agent_id == find_agent(session, wanted.agent).id)
    if wanted.session_id is not None:
        named = session.exec(
            select(Conversation.id).where(Conversation.external_id == wanted.session_id)
        ).all()
        statement = statement.where(col(Turn.session_id).in_([wanted.session_id, *named]))
    if wanted.kind is not None:
        statement = statement.where(Turn.kind == (written_out(SIDE) if wanted.kind == SIDE else wanted.kind))
    for name in ("id", "state", "round_id", "response_id"):
        value = getattr(wanted, name)
        if value is not None:
            statement = statement.where(getattr(Turn, name) == value)
    return statement


@router.get("/turns/{turn_id}")
async def show_turn(gateway: Admitted, turn_id: str) -> TurnView:
    """One turn."""
    return await gateway.read(lambda session: _shown(session, turn_id))


@router.patch("/turns/{turn_id}")
async def change_turn(gateway: Admitted, turn_id: str, change: TurnChange) -> TurnView:
    """Set a verdict, or exclude a turn from training."""
    given = change.model_fields_set
    if len(given) != 1:
        raise RequestError("Give exactly one of 'verdict' and 'excluded'.", param="verdict")
    if "verdict" in given and change.verdict not in (-1, 0, 1, None):
        raise RequestError("verdict: -1, 0, 1 or null", param="verdict")
    if "excluded" in given and change.excluded is not True:
        raise RequestError("excluded: true; what was excluded stays so", param="excluded")

    def apply(session: Session) -> TurnView:
        if session.get(Turn, turn_id) is None:
            raise NotFound(f"There is no turn {turn_id[:64]}.")
        if "excluded" in given:
            exclude(session, turn_id, EXCLUDED_BY_ADMIN)
        else:
            override_verdict(session, turn_id, change.verdict)
        session.expire_all()
        return _shown(session, turn_id)

    return await gateway.write(apply)


def _shown(session: Session, turn_id: str) -> TurnView:
    turn = session.get(Turn, turn_id)
    if turn is None:
        raise NotFound(f"There is no turn {turn_id[:64]}.")
    return turn_view(session, turn, agents_by_id(session)[turn.agent_id].name)


@router.get("/signals")
async def list_signals(
    gateway: Admitted,
    agent: str | None = None,
    turn_id: str | None = None,
    source: str | None = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[SignalRow]:
    """Every revision of every signal, newest first."""

    def look(session: Session) -> Page[SignalRow]:
        statement = select(Signal)
        if turn_id is not None:
            statement = statement.where(Signal.turn_id == turn_id)
        if source is not None:
            statement = statement.where(Signal.source == source)
        statements = [statement] if agent is None else _of_agent(statement, find_agent(session, agent).id)
        rows, more = newest_of(session, statements, col(Signal.id), after=after, limit=limit)
        agents = agents_by_id(session)
        views = [signal_row(row, agents[_owner(session, row)].name) for row in rows]
        return Page(data=views, next=rows[-1].id if more else None)

    return await gateway.read(look)


def _of_agent(statement: SelectOfScalar[Signal], agent_id: str) -> list[SelectOfScalar[Signal]]:
    """The signals of an agent: those that say so, and those written by code that did not say it yet."""
    unsaid = statement.join(Turn, col(Turn.id) == Signal.turn_id)
    return [
        statement.where(Signal.agent_id == agent_id),
        unsaid.where(col(Signal.agent_id).is_(None), Turn.agent_id == agent_id),
    ]


def _owner(session: Session, signal: Signal) -> str:
    return signal.agent_id or session.get_one(Turn, signal.turn_id).agent_id
