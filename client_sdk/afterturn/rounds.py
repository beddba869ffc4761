"""Rounds: one training run each. All verbs need the admin key."""

from dataclasses import dataclass
from datetime import datetime

from afterturn.context import Context
from afterturn.decoding import decoder
from afterturn.errors import WaitTimedOut
from afterturn.listing import Page, async_listing, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import JSON, Flow, Pause, query, segment

ENDED = frozenset({"published", "rejected", "failed", "cancelled"})


@dataclass(frozen=True)
class Round:
    """One training run over a fixed set of turns."""

    id: str
    state: str
    agent: str | None = None
    objective: str | None = None
    turn_ids: tuple[str, ...] = ()
    settings: JSON = None
    metrics: JSON = None
    gate: JSON = None
    adapter: str | None = None
    progress: float | None = None  # 0..1
    cancel_requested: bool = False
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED


@dataclass(frozen=True)
class Waiting:
    """Looks at a round every `poll` seconds until it has ended."""

    round_id: str
    timeout: float
    poll: float

    def flow(self, context: Context) -> Flow[Round]:
        """Raises `WaitTimedOut`."""
        waited = 0.0
        while True:
            round_ = yield from get(self.round_id).flow(context)
            if round_.ended:
                return round_
            if waited >= self.timeout:
                raise WaitTimedOut(f"round {self.round_id} is still {round_.state} after {self.timeout:g} s")
            pause = min(self.poll, self.timeout - waited)
            yield Pause(pause)
            waited += pause


def list_rounds(
    *, agent: str | None = None, state: str | None = None, limit: int | None = None
) -> Call[Page[Round]]:
    """Rounds, newest first; `limit` is the size of a page."""
    params = query(agent=agent, state=state, limit=limit)
    return Call("GET", "/admin/api/rounds", page_of(Round), params, admin=True)


def get(round_id: str) -> Call[Round]:
    """One round with its metrics and gate report."""
    return Call("GET", f"/admin/api/rounds/{segment(round_id)}", decoder(Round), admin=True)


def start(agent: str) -> Call[Round]:
    """Train now, on the signals that wait. Raises `Conflict` if a round of this agent is running."""
    return Call("POST", "/admin/api/rounds", decoder(Round), body={"agent": agent}, admin=True)


def cancel(round_id: str) -> Call[Round]:
    """Stop a round; its turns go back to those that wait."""
    return Call("POST", f"/admin/api/rounds/{segment(round_id)}/cancel", decoder(Round), admin=True)


def wait(round_id: str, *, timeout: float = 3600.0, poll: float = 2.0) -> Waiting:
    """The round once it has ended, however it did.

    Looks every `poll` seconds; raises `WaitTimedOut` after `timeout` seconds of waiting (the round goes on).
    """
    if timeout < 0 or poll <= 0:
        raise ValueError("timeout must not be negative, poll must be positive")
    return Waiting(round_id, timeout, poll)


class Rounds(Namespace):
    """Verbs about rounds."""

    list = listing(list_rounds)
    get = blocking(get)
    start = blocking(start)
    cancel = blocking(cancel)
    wait = blocking(wait)


class AsyncRounds(AsyncNamespace):
    """Verbs about rounds."""

    list = async_listing(list_rounds)
    get = awaited(get)
    start = awaited(start)
    cancel = awaited(cancel)
    wait = awaited(wait)
