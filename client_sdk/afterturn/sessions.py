"""Sessions: the turns of one conversation."""

from dataclasses import dataclass
from datetime import datetime

from afterturn.decoding import nothing
from afterturn.listing import Page, async_listing, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import query, segment


@dataclass(frozen=True)
class SessionRecord:
    """A session as the server knows it; `external_id` is the name a client gave it."""

    id: str
    external_id: str | None = None
    agent: str | None = None
    created_at: datetime | None = None
    last_seen_at: datetime | None = None
    ended_at: datetime | None = None
    turns: int | None = None


def list_sessions(*, limit: int | None = None) -> Call[Page[SessionRecord]]:
    """The agent's sessions; `limit` is the size of a page."""
    return Call("GET", "/v1/sessions", page_of(SessionRecord), query(limit=limit))


def end(session_id: str) -> Call[None]:
    """Close a session: what its users said last counts now instead of after the idle time."""
    return Call("POST", f"/v1/sessions/{segment(session_id)}/end", nothing)


def delete(session_id: str) -> Call[None]:
    """Erase a session with its turns. Adapters trained on them are marked tainted."""
    return Call("DELETE", f"/v1/sessions/{segment(session_id)}", nothing)


class Sessions(Namespace):
    """Verbs about sessions."""

    list = listing(list_sessions)
    end = blocking(end)
    delete = blocking(delete)


class AsyncSessions(AsyncNamespace):
    """Verbs about sessions."""

    list = async_listing(list_sessions)
    end = awaited(end)
    delete = awaited(delete)
