"""Turns, signals, rounds and adapters as the admin API and exports show them."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlmodel import Session, col, select

from afterturn_core.history import (
    load_content,
    load_history,
    load_prompt,
    unpack_ids,
    unpack_logprobs,
)
from afterturn_core.models import Adapter, Agent, NextState, OriginalRequest, Round, Signal, Turn

T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """A part of a listing; `next` goes into `after`, and is null at the end."""

    data: list[T]
    next: str | None


class HintView(BaseModel):
    """A short instruction that would have made the turn better."""

    text: str
    source: str


class SignalView(BaseModel):
    """Verdict and hints of a turn."""

    revision: int
    verdict: int | None
    weight: float
    source: str
    votes: list[int | None]
    rationale: str
    hints: list[HintView]
    disagreement: bool
    flags: list[str]
    created_at: datetime


class SignalRow(SignalView):
    """A signal in a listing of its own."""

    id: str
    turn_id: str
    agent: str


class NextStateView(BaseModel):
    """One piece of what came after a turn."""

    role: str
    text: str
    believed: bool
    kind: str | None
    value: float | None
    weight: float


class RequestView(BaseModel):
    """What was asked."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    sampling: dict[str, Any]


class OriginalView(BaseModel):
    """What was sent in a protocol other than chat: the conversation's items, and all else but the tools."""

    items: list[dict[str, Any]]
    fields: dict[str, Any]


class TurnView(BaseModel):
    """One model call with everything that is known of it."""

    id: str
    agent: str
    session_id: str
    parent_id: str | None
    attempt_of: str | None
    kind: str
    kind_reason: str
    state: str
    excluded_reason: str | None
    protocol: str
    response_id: str
    adapter: str
    model_hash: str
    created_at: datetime
    finish_reason: str | None
    client: str
    held_out: bool
    request: RequestView
    original: OriginalView | None
    reply: dict[str, Any]
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float | None]
    next_state: list[NextStateView]
    signal: SignalView | None
    round_id: str | None


class AdapterView(BaseModel):
    """An adapter; `parent` is a version number, null for the base model. `origin` is `round` or `import`;
    an imported one was called `imported_as` where it came from."""

    name: str
    agent: str
    version: int
    parent: int | None
    state: str
    live: bool
    marks: list[str]
    round_id: str | None
    origin: str
    imported_as: str | None
    sha256: str | None
    model_hash: str
    created_at: datetime
    gate: dict[str, Any] | None


class RoundView(BaseModel):
    """A training run; `progress` goes from 0 to 1."""

    id: str
    agent: str
    state: str
    objective: str
    turn_ids: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Any]
    gate: dict[str, Any] | None
    adapter: str | None
    progress: float
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


def turn_view(session: Session, turn: Turn, agent: str) -> TurnView:
    """A turn of the agent of this name."""
    signal = session.exec(
        select(Signal).where(Signal.turn_id == turn.id, Signal.revision == turn.signal_revision)
    ).one_or_none()
    following = session.exec(
        select(NextState)
        .where(NextState.turn_id == turn.id, NextState.withdrawn == False)  # noqa: E712 - SQL
        .order_by(col(NextState.created_at), col(NextState.position))
    ).all()
    return TurnView(
        id=turn.id,
        agent=agent,
        session_id=turn.session_id,
        parent_id=turn.parent_id,
        attempt_of=turn.attempt_of,
        kind=turn.kind,
        kind_reason=turn.kind_reason,
        state=turn.state,
        excluded_reason=turn.excluded_reason,
        protocol=turn.protocol,
        response_id=turn.response_id,
        adapter=turn.adapter,
        model_hash=turn.model_hash,
        created_at=turn.created_at,
        finish_reason=turn.finish_reason,
        client=turn.client,
        held_out=turn.held_out,
        request=RequestView(
            messages=load_history(session, turn.history_digest),
            tools=[] if turn.tools_digest is None else load_content(session, turn.tools_digest),
            sampling=turn.sampling,
        ),
        original=None if turn.protocol == "chat" else _original(session, turn.id),
        reply=load_content(session, turn.reply_digest),
        prompt_token_ids=load_prompt(session, turn),
        token_ids=unpack_ids(turn.token_ids),
        logprobs=list(unpack_logprobs(turn.logprobs)),
        next_state=[
            NextStateView(
                role=row.role,
                text=row.text,
                believed=row.believed,
                kind=row.kind,
                value=row.value,
                weight=row.weight,
            )
            for row in following
        ],
        signal=None if signal is None else signal_view(signal),
        round_id=turn.round_id,
    )


def _original(session: Session, turn_id: str) -> OriginalView | None:
    row = session.get(OriginalRequest, turn_id)
    if row is None:
        return None
    return OriginalView(
        items=load_history(session, row.items_digest), fields=load_content(session, row.fields_digest)
    )


def signal_view(signal: Signal) -> SignalView:
    """A signal."""
    return SignalView(**_signal_fields(signal))


def signal_row(signal: Signal, agent: str) -> SignalRow:
    """A signal with where it belongs."""
    return SignalRow(**_signal_fields(signal), id=signal.id, turn_id=signal.turn_id, agent=agent)


def _signal_fields(signal: Signal) -> dict[str, Any]:
    return {name: getattr(signal, name) for name in SignalView.model_fields}


def adapter_view(session: Session, adapter: Adapter, agent: Agent) -> AdapterView:
    """An adapter of this agent."""
    parent = None if adapter.parent_id is None else session.get_one(Adapter, adapter.parent_id)
    return AdapterView(
        name=adapter.name,
        agent=agent.name,
        version=adapter.version,
        parent=None if parent is None else parent.version,
        state=adapter.state,
        live=agent.live_adapter_id == adapter.id,
        marks=adapter.marks,
        round_id=adapter.round_id,
        origin=adapter.origin,
        imported_as=adapter.imported_as,
        sha256=adapter.sha256,
        model_hash=adapter.model_hash,
        created_at=adapter.created_at,
        gate=adapter.gate,
    )


def round_view(session: Session, row: Round, agent: str) -> RoundView:
    """A round of the agent of this name."""
    adapter = None if row.adapter_id is None else session.get_one(Adapter, row.adapter_id)
    return RoundView(
        id=row.id,
        agent=agent,
        state=row.state,
        objective=row.objective,
        turn_ids=row.turn_ids,
        settings=row.settings,
        metrics=row.metrics,
        gate=row.gate,
        adapter=None if adapter is None else adapter.name,
        progress=row.progress,
        cancel_requested=row.cancel_requested,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
    )
