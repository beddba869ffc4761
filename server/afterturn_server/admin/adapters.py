"""`adapters`: every version there ever was, and making one live."""

from fastapi import APIRouter
from sqlmodel import Session, col, select

from afterturn_core.errors import NotFound
from afterturn_core.lifecycle import promote
from afterturn_core.models import Adapter

from ..listing import DEFAULT_LIMIT, After, Limit, agents_by_id, find_agent, newest_first
from ..views import AdapterView, Page, adapter_view
from .access import Admitted
from .loading import ensure_loaded

router = APIRouter(tags=["adapters"])


@router.get("/adapters")
async def list_adapters(
    gateway: Admitted,
    agent: str | None = None,
    state: str | None = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[AdapterView]:
    """Adapters, newest first."""

    def look(session: Session) -> Page[AdapterView]:
        statement = select(Adapter)
        if agent is not None:
            statement = statement.where(Adapter.agent_id == find_agent(session, agent).id)
        if state is not None:
            statement = statement.where(Adapter.state == state)
        rows, more = newest_first(session, statement, col(Adapter.id), after=after, limit=limit)
        agents = agents_by_id(session)
        views = [adapter_view(session, row, agents[row.agent_id]) for row in rows]
        return Page(data=views, next=rows[-1].id if more else None)

    return await gateway.read(look)


@router.get("/adapters/{name}")
async def show_adapter(gateway: Admitted, name: str) -> AdapterView:
    """One adapter."""

    def look(session: Session) -> AdapterView:
        adapter = _find(session, name)
        return adapter_view(session, adapter, agents_by_id(session)[adapter.agent_id])

    return await gateway.read(look)


@router.post("/adapters/{name}/promote")
async def make_live(gateway: Admitted, name: str) -> AdapterView:
    """Make an adapter live; 409 if it is not complete, tainted, or refused by the engine."""
    await ensure_loaded(gateway, await gateway.read(lambda session: _find(session, name)))

    def apply(session: Session) -> AdapterView:
        adapter = _find(session, name)
        return adapter_view(session, adapter, promote(session, adapter))

    return await gateway.write(apply)


def _find(session: Session, name: str) -> Adapter:
    adapter = session.exec(select(Adapter).where(Adapter.name == name)).one_or_none()
    if adapter is None:
        raise NotFound(f"There is no adapter {name[:80]}.")
    return adapter
