"""Signed-in browsers. The admin key stays here, in memory; the browser holds a random token."""

import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

IDLE_S = 12 * 3600.0
MOST_VISITS = 64
FAILURES_ALLOWED = 5
FAILURES_WITHIN_S = 60.0

Theme = Literal["auto", "light", "dark"]


@dataclass
class Visit:
    """One signed-in browser."""

    admin_key: str = field(repr=False)
    seen_at: float
    theme: Theme = "auto"


class Visits:
    """All signed-in browsers; a restart signs everybody out. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._visits: dict[str, Visit] = {}
        self._failures: deque[float] = deque()

    def begin(self, admin_key: str) -> str:
        """A new visit; returns its token. Beyond `MOST_VISITS` the one unseen longest ends."""
        token = secrets.token_urlsafe(32)
        while len(self._visits) >= MOST_VISITS:
            del self._visits[min(self._visits, key=lambda mark: self._visits[mark].seen_at)]
        self._visits[_mark(token)] = Visit(admin_key, self._now())
        return token

    def find(self, token: str) -> Visit | None:
        """The visit of a token, unless it ended or was idle for too long."""
        visit = self._visits.get(_mark(token))
        if visit is None:
            return None
        if self._now() - visit.seen_at > IDLE_S:
            del self._visits[_mark(token)]
            return None
        visit.seen_at = self._now()
        return visit

    def end(self, token: str) -> None:
        """Forget a visit."""
        self._visits.pop(_mark(token), None)

    def drop(self, visit: Visit) -> None:
        """Forget a visit whose key the gateway no longer takes."""
        self._visits = {mark: other for mark, other in self._visits.items() if other is not visit}

    def holds(self, visit: Visit) -> bool:
        """Whether a visit goes on."""
        return any(other is visit for other in self._visits.values())

    def failed(self) -> None:
        """Count a wrong key."""
        self._failures.append(self._now())

    def must_wait(self) -> bool:
        """Whether too many wrong keys came lately, from whomever."""
        while self._failures and self._now() - self._failures[0] > FAILURES_WITHIN_S:
            self._failures.popleft()
        return len(self._failures) >= FAILURES_ALLOWED


def _mark(token: str) -> str:
    """What a token is looked up by, so that looking takes no time that depends on its characters."""
    return sha256(token.encode()).hexdigest()
