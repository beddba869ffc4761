"""Who calls: the key a request shows, what it may do, and whether it has done too much already."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, select
from sqlmodel import Session

from afterturn_core.columns import utc_now
from afterturn_core.errors import AuthenticationError, PermissionDenied, RateLimited
from afterturn_core.keys import ADMIN, digest
from afterturn_core.models import Key

from .lookup import look_up
from .usage import MINUTE, tokens_used

_TOKENS_RETRY_S = 600.0  # the window slides, so a part of the day's tokens is free again soon


@dataclass(frozen=True)
class Caller:
    """A valid key. `agent_id` is None for an admin key, which may act as any agent."""

    key_id: str
    agent_id: str | None
    scopes: frozenset[str]
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None

    @property
    def is_admin(self) -> bool:
        """Whether this is an admin key."""
        return ADMIN in self.scopes

    def require(self, scope: str) -> None:
        """Raises PermissionDenied without this scope."""
        if scope not in self.scopes and not self.is_admin:
            raise PermissionDenied(f"This API key has no scope '{scope}'.")


def presented_key(headers: Mapping[str, str]) -> str:
    """The key a request shows.

    Raises:
        AuthenticationError: none.
    """
    authorization = headers.get("authorization", "")
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    given = headers.get("x-api-key", "").strip()
    if not given:
        raise AuthenticationError(
            "You didn't provide an API key: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
        )
    return given


_KEYS = Key.__table__  # type: ignore[attr-defined]
_FIND_KEY = select(
    _KEYS.c.id,
    _KEYS.c.agent_id,
    _KEYS.c.scopes,
    _KEYS.c.revoked_at,
    _KEYS.c.expires_at,
    _KEYS.c.requests_per_minute,
    _KEYS.c.tokens_per_day,
).where(_KEYS.c.digest == bindparam("digest"))


def find_caller(session: Session, key: str, scope: str) -> Caller:
    """The caller behind a key. Every call looks it up, so a revocation counts at once.

    Raises:
        AuthenticationError: unknown, revoked or expired; the message does not say which.
        PermissionDenied: it lacks the scope.
        RateLimited: it has used up its tokens of the last 24 hours.
    """
    row = look_up(session, _FIND_KEY, {"digest": digest(key)})
    if (
        row is None
        or row.revoked_at is not None
        or (row.expires_at is not None and row.expires_at < utc_now())
    ):
        raise AuthenticationError("Incorrect API key provided.")
    caller = Caller(row.id, row.agent_id, frozenset(row.scopes), row.requests_per_minute, row.tokens_per_day)
    caller.require(scope)
    if scope == "inference" and caller.tokens_per_day is not None:
        _check_tokens(session, caller, caller.tokens_per_day)
    return caller


def _check_tokens(session: Session, caller: Caller, limit: int) -> None:
    if tokens_used(session, caller.key_id, time.time()) >= limit:
        raise RateLimited(
            f"This API key has used its {limit} tokens of the last 24 hours.", retry_after=_TOKENS_RETRY_S
        )


class RequestRate:
    """What this process knows of requests a minute: keys that have none left, and, for the time when nothing
    can be counted for all processes together, its own count."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}
        self._full_until: dict[str, float] = {}

    def refuse(self, caller: Caller, seconds: float) -> RateLimited:
        """Remember that a key has no request left for so long, and what to tell it."""
        self._full_until[caller.key_id] = time.monotonic() + seconds
        return RateLimited(
            f"This API key may make {caller.requests_per_minute} requests a minute.", retry_after=seconds
        )

    def check(self, caller: Caller) -> None:
        """Raises RateLimited for a key that is known to have no request left: hammering costs little."""
        until = self._full_until.get(caller.key_id)
        if until is None:
            return
        left = until - time.monotonic()
        if left > 0:
            raise self.refuse(caller, left)
        del self._full_until[caller.key_id]

    def count_here(self, caller: Caller) -> None:
        """Count one request in this process alone.

        Raises:
            RateLimited: it is one too many.
        """
        limit = caller.requests_per_minute
        if limit is None:
            return
        now = time.monotonic()
        times = self._times.setdefault(caller.key_id, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= limit:
            raise self.refuse(caller, times[0] + MINUTE - now)
        times.append(now)
