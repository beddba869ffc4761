"""Agents: the policies served. All verbs need the admin key."""

from dataclasses import dataclass
from datetime import datetime

from afterturn.context import Context
from afterturn.decoding import decoder
from afterturn.errors import NotFound
from afterturn.listing import Page, async_listing, following, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import JSON, Flow, query, segment


@dataclass(frozen=True)
class Agent:
    """A policy: a name, its adapters, keys and data. `live_adapter` is None while base serves."""

    name: str
    id: str | None = None
    frozen: bool = False
    live_adapter: str | None = None
    pinned_version: int | None = None
    settings: JSON = None
    created_at: datetime | None = None


@dataclass(frozen=True)
class Finding:
    """Looks through the listing, which is all the server offers."""

    name: str

    def flow(self, context: Context) -> Flow[Agent]:
        """Raises `NotFound`."""
        call: Call[Page[Agent]] | None = list_agents()
        seen: set[str] = set()
        while call is not None:
            page = yield from call.flow(context)
            for agent in page.data:
                if agent.name == self.name:
                    return agent
            call = following(call, page, seen)
        raise NotFound(
            f"no agent is named {self.name!r}",
            status=404,
            request_id=None,
            body=None,
            code=None,
            field="name",
            retry_after=None,
        )


def list_agents(*, limit: int | None = None) -> Call[Page[Agent]]:
    """The agents of this install; `limit` is the size of a page."""
    return Call("GET", "/admin/api/agents", page_of(Agent), query(limit=limit), admin=True)


def get(name: str) -> Finding:
    """One agent. Raises `NotFound`."""
    return Finding(name)


def create(name: str) -> Call[Agent]:
    """A new agent, which serves the base model until it has learned something."""
    return Call("POST", "/admin/api/agents", decoder(Agent), body={"name": name}, admin=True)


def update(name: str, **changes: JSON) -> Call[Agent]:
    """Change settings, e.g. `frozen=True` (serves, never trains) or `pinned_version=3`."""
    if not changes:
        raise ValueError("name at least one setting to change")
    return Call("PATCH", f"/admin/api/agents/{segment(name)}", decoder(Agent), body=changes, admin=True)


class Agents(Namespace):
    """Verbs about agents."""

    list = listing(list_agents)
    get = blocking(get)
    create = blocking(create)
    update = blocking(update)


class AsyncAgents(AsyncNamespace):
    """Verbs about agents."""

    list = async_listing(list_agents)
    get = awaited(get)
    create = awaited(create)
    update = awaited(update)
