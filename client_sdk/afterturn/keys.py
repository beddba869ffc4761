"""Keys: what clients of an agent show. All verbs need the admin key."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from afterturn.decoding import decoder, nothing
from afterturn.listing import Page, async_listing, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import JSONObject, query, segment

EVERY_SCOPE = ("inference", "feedback")


@dataclass(frozen=True)
class Key:
    """A key as the server lists it: by its prefix, never whole."""

    prefix: str
    agent: str | None = None
    scopes: tuple[str, ...] = ()
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None


@dataclass(frozen=True)
class NewKey:
    """A key just made. The server shows `key` this once; its repr never does."""

    prefix: str
    key: str = field(repr=False)


def list_keys(*, limit: int | None = None) -> Call[Page[Key]]:
    """The keys of this install; `limit` is the size of a page."""
    return Call("GET", "/admin/api/keys", page_of(Key), query(limit=limit), admin=True)


def create(agent: str | None, *, scopes: Sequence[str] = EVERY_SCOPE) -> Call[NewKey]:
    """A new key of an agent; scopes are `inference` and `feedback`, or `admin` alone with no agent."""
    body: JSONObject = {"agent": agent, "scopes": [*scopes]}
    return Call("POST", "/admin/api/keys", decoder(NewKey), body=body, admin=True)


def delete(prefix: str) -> Call[None]:
    """Revoke a key."""
    return Call("DELETE", f"/admin/api/keys/{segment(prefix)}", nothing, admin=True)


class Keys(Namespace):
    """Verbs about keys."""

    list = listing(list_keys)
    create = blocking(create)
    delete = blocking(delete)


class AsyncKeys(AsyncNamespace):
    """Verbs about keys."""

    list = async_listing(list_keys)
    create = awaited(create)
    delete = awaited(delete)
