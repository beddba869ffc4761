"""Turns: one model call each."""

from dataclasses import dataclass
from datetime import datetime

from afterturn.decoding import decoder, nothing
from afterturn.listing import Page, async_listing, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import JSON, query, segment


@dataclass(frozen=True)
class TurnRequest:
    """What was asked, as the client sent it."""

    messages: JSON = None
    tools: JSON = None
    sampling: JSON = None


@dataclass(frozen=True)
class NextState:
    """Something that arrived after the turn; it counts once `believed`."""

    role: str
    text: str = ""
    believed: bool = False


@dataclass(frozen=True)
class Hint:
    """What, had it been known, would have made the turn better."""

    text: str
    source: str | None = None


@dataclass(frozen=True)
class Signal:
    """Verdict (+1, 0, -1, or None for none) and hints of a turn. `weight` is the verdict's in training: below
    1 where a session's outcome decided it and other turns came after this one."""

    revision: int = 1
    verdict: int | None = None
    source: str | None = None
    votes: tuple[int | None, ...] | None = None
    rationale: str | None = None
    hints: tuple[Hint, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True)
class Turn:
    """One model call and what became of it. `token_ids` and `logprobs` are the engine's own, side by side."""

    id: str
    agent: str | None = None
    session_id: str | None = None
    parent_id: str | None = None
    attempt_of: str | None = None
    kind: str | None = None
    kind_reason: str | None = None
    state: str | None = None
    excluded_reason: str | None = None
    protocol: str | None = None
    adapter: str | None = None
    model_hash: str | None = None
    created_at: datetime | None = None
    finish_reason: str | None = None
    client: str | None = None
    request: TurnRequest | None = None
    reply: JSON = None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float | None, ...] | None = None
    next_state: tuple[NextState, ...] = ()
    signal: Signal | None = None
    round_id: str | None = None


def get(turn_id: str) -> Call[Turn]:
    """One turn."""
    return Call("GET", f"/v1/turns/{segment(turn_id)}", decoder(Turn))


def delete(turn_id: str) -> Call[None]:
    """Erase a turn. Adapters trained on it are marked tainted."""
    return Call("DELETE", f"/v1/turns/{segment(turn_id)}", nothing)


def list_turns(
    *,
    agent: str | None = None,
    session_id: str | None = None,
    state: str | None = None,
    limit: int | None = None,
) -> Call[Page[Turn]]:
    """Turns, narrowed as asked; `limit` is the size of a page. Needs the admin key."""
    params = query(agent=agent, session_id=session_id, state=state, limit=limit)
    return Call("GET", "/admin/api/turns", page_of(Turn), params, admin=True)


class Turns(Namespace):
    """Verbs about turns."""

    get = blocking(get)
    delete = blocking(delete)
    list = listing(list_turns)


class AsyncTurns(AsyncNamespace):
    """Verbs about turns."""

    get = awaited(get)
    delete = awaited(delete)
    list = async_listing(list_turns)
