"""`agents`: names, settings, and which adapter is live."""

import re
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from sqlmodel import Session, col, select

from afterturn_core.errors import NotFound, RequestError
from afterturn_core.keys import add_agent
from afterturn_core.lifecycle import rollback, rollback_target
from afterturn_core.models import Adapter, Agent
from afterturn_core.settings import Objective

from ..listing import DEFAULT_LIMIT, MAX_INT, After, Limit, find_agent
from ..resolution import BASE
from ..views import Page
from .access import Admitted
from .loading import ensure_loaded

router = APIRouter(tags=["agents"])

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class AgentSettings(BaseModel):
    """What an agent does differently from the install; null is the install's own setting."""

    objective: str | None
    min_signals: int | None
    accept_any_model: bool


class AgentView(BaseModel):
    """An agent; `live_adapter` is null while the base model serves."""

    id: str
    name: str
    frozen: bool
    live_adapter: str | None
    pinned_version: int | None
    settings: AgentSettings
    created_at: datetime


class NewAgent(BaseModel):
    """A name of small letters, digits, dots, dashes and underscores."""

    name: str = Field(max_length=63)


class AgentChange(BaseModel):
    """What to change; fields that are left out stay."""

    model_config = ConfigDict(extra="forbid")

    frozen: StrictBool | None = None
    pinned_version: StrictInt | None = Field(None, ge=0, le=MAX_INT)
    objective: Objective | None = None
    min_signals: StrictInt | None = Field(None, ge=1, le=MAX_INT)
    accept_any_model: StrictBool | None = None


class Rollback(BaseModel):
    """The version to go back to; 0 is the base model, null the parent of the live one."""

    to: StrictInt | None = Field(None, ge=0, le=MAX_INT)


def agent_view(session: Session, agent: Agent) -> AgentView:
    """An agent as the admin API shows it."""
    live = None if agent.live_adapter_id is None else session.get_one(Adapter, agent.live_adapter_id)
    pinned = None if agent.pinned_adapter_id is None else session.get_one(Adapter, agent.pinned_adapter_id)
    return AgentView(
        id=agent.id,
        name=agent.name,
        frozen=agent.frozen,
        live_adapter=None if live is None else live.name,
        pinned_version=None if pinned is None else pinned.version,
        settings=AgentSettings(
            objective=agent.objective,
            min_signals=agent.min_signals,
            accept_any_model=agent.accept_any_model,
        ),
        created_at=agent.created_at,
    )


@router.get("/agents")
async def list_agents(
    gateway: Admitted, after: After = None, limit: Limit = DEFAULT_LIMIT
) -> Page[AgentView]:
    """Agents by name."""

    def look(session: Session) -> Page[AgentView]:
        statement = select(Agent).order_by(Agent.name).limit(limit + 1)
        if after is not None:
            statement = statement.where(col(Agent.name) > after)
        rows = session.exec(statement).all()
        views = [agent_view(session, agent) for agent in rows[:limit]]
        return Page(data=views, next=views[-1].name if len(rows) > limit else None)

    return await gateway.read(look)


@router.post("/agents", status_code=201)
async def make_agent(gateway: Admitted, new: NewAgent) -> AgentView:
    """Make an agent, which serves the base model until it has learned something."""
    if _NAME.fullmatch(new.name) is None or new.name == BASE:
        raise RequestError(
            "name: small letters, digits, '.', '_' and '-', beginning with a letter or digit, "
            "at most 63; 'base' is reserved",
            param="name",
        )
    return await gateway.write(lambda session: agent_view(session, add_agent(session, new.name)))


@router.get("/agents/{name}")
async def show_agent(gateway: Admitted, name: str) -> AgentView:
    """One agent."""
    return await gateway.read(lambda session: agent_view(session, find_agent(session, name)))


@router.patch("/agents/{name}")
async def change_agent(gateway: Admitted, name: str, change: AgentChange) -> AgentView:
    """Freeze an agent, pin a version, or change its settings."""

    def apply(session: Session) -> AgentView:
        agent = find_agent(session, name)
        for field in change.model_fields_set - {"pinned_version"}:
            value = getattr(change, field)
            setattr(agent, field, bool(value) if field in ("frozen", "accept_any_model") else value)
        if "pinned_version" in change.model_fields_set:
            agent.pinned_adapter_id = _pinned(session, agent, change.pinned_version)
        session.add(agent)
        session.flush()
        return agent_view(session, agent)

    return await gateway.write(apply)


def _pinned(session: Session, agent: Agent, version: int | None) -> str | None:
    if version is None:
        return None
    adapter = session.exec(
        select(Adapter).where(Adapter.agent_id == agent.id, Adapter.version == version)
    ).one_or_none()
    if adapter is None:
        raise NotFound(f"agent {agent.name} has no version {version}", param="pinned_version")
    if adapter.state != "published" or "tainted" in adapter.marks:
        raise RequestError(f"{adapter.name} cannot be served", param="pinned_version")
    return adapter.id


@router.post("/agents/{name}/rollback")
async def roll_back(gateway: Admitted, name: str, wanted: Rollback | None = None) -> AgentView:
    """Make an earlier version live again; 409 if the engine refuses it, and nothing has changed."""
    to = None if wanted is None else wanted.to

    def apply(session: Session) -> AgentView:
        return agent_view(session, rollback(session, find_agent(session, name), to))

    target = await gateway.read(lambda session: rollback_target(session, find_agent(session, name), to))
    await ensure_loaded(gateway, target)
    return await gateway.write(apply)
