"""`/v1/feedback`: what a person or a check says about a turn, in so many words."""

import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

import anyio.to_thread
import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictStr, field_validator
from sqlmodel import Session, col, select
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.columns import utc_now
from afterturn_core.errors import Conflict, NotFound, RequestError
from afterturn_core.ids import new_id
from afterturn_core.lifecycle import Piece, add_feedback, withdraw_feedback
from afterturn_core.masking import mask
from afterturn_core.models import Conversation, Feedback, Turn

from .answers import Json, JsonResponse
from .body import parse, read_object
from .caller import Caller
from .gateway import Gateway

WEIGHTS = (1.0, 0.5, 0.25, 0.125)  # of an outcome, from a session's last turn back
_TEXT_KINDS = frozenset({"correction", "preferred", "comment"})
_RANGES = {"score": (0.0, 1.0), "outcome": (0.0, 1.0)}

_NO_NUL = r"^[^\x00]*$"  # PostgreSQL stores none
Short = Annotated[StrictStr, Field(min_length=1, max_length=256, pattern=_NO_NUL)]


class Event(BaseModel):
    """An event as a client sends it."""

    model_config = ConfigDict(extra="forbid")

    turn_id: Short | None = None
    response_id: Short | None = None
    session_id: Short | None = None
    kind: Literal["thumb", "score", "correction", "preferred", "comment", "outcome"]
    value: Annotated[float, Field(strict=True)] | None = None
    text: Annotated[StrictStr, Field(max_length=200_000, pattern=_NO_NUL)] | None = None
    idempotency_key: Short | None = None
    occurred_at: AwareDatetime | None = None
    source: Short | None = None

    @field_validator("occurred_at")
    @classmethod
    def _in_the_calendar(cls, value: datetime | None) -> datetime | None:
        try:
            return None if value is None else value.astimezone(UTC)
        except OverflowError:
            raise ValueError("a moment that UTC has no date for") from None


class FeedbackView(BaseModel):
    """An event as it is stored; `turn_id` is the turn it was found to be about."""

    id: str
    turn_id: str
    session_id: str
    response_id: str
    kind: str
    value: float | None
    text: str | None
    source: str | None
    idempotency_key: str | None
    occurred_at: datetime
    created_at: datetime
    withdrawn_at: datetime | None


@dataclass(frozen=True)
class Stored:
    """The event's row, whether this call made it, and the turns that are to be judged (again)."""

    view: FeedbackView
    new: bool
    observed: tuple[str, ...] = ()


def check_event(event: Event) -> None:
    """What an event's kind demands of it.

    Raises:
        RequestError: a target, value or text is missing, wrong or too many.
    """
    targets = [name for name in ("turn_id", "response_id", "session_id") if getattr(event, name) is not None]
    if len(targets) != 1:
        raise RequestError(
            "Give exactly one of turn_id, response_id and session_id.",
            param=targets[1] if targets else "turn_id",
        )
    if event.kind in _TEXT_KINDS:
        if event.text is None or not event.text.strip():
            raise RequestError(f"text: a {event.kind} needs one", param="text")
        if event.value is not None:
            raise RequestError(f"value: a {event.kind} has none", param="value")
        return
    if event.value is None or not math.isfinite(event.value):
        raise RequestError(f"value: a {event.kind} needs one", param="value")
    if event.kind == "thumb":
        if event.value not in (-1, 1):
            raise RequestError("value: a thumb is -1 or 1", param="value")
        return
    low, high = _RANGES[event.kind]
    if not low <= event.value <= high:
        raise RequestError(f"value: a {event.kind} lies between 0 and 1", param="value")


def store_event(session: Session, caller: Caller, event: Event) -> Stored:
    """Store an event once and give it to its turns.

    Raises:
        NotFound: no such target, or another agent's.
        Conflict: the idempotency key was used for another event.
    """
    body = event.model_dump(mode="json", exclude_none=True)
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    turn = _target(session, caller, event)
    if event.idempotency_key is not None:
        earlier = session.exec(
            select(Feedback).where(
                Feedback.agent_id == turn.agent_id, Feedback.idempotency_key == event.idempotency_key
            )
        ).one_or_none()
        if earlier is not None:
            if earlier.body_digest != digest:
                raise Conflict("This idempotency key was used for another event.", param="idempotency_key")
            return Stored(feedback_view(session, earlier), new=False)
    row = Feedback(
        id=new_id("feedback"),
        agent_id=turn.agent_id,
        turn_id=turn.id,
        session_id=turn.session_id,
        kind=event.kind,
        value=event.value,
        text=event.text,
        source=event.source,
        idempotency_key=event.idempotency_key,
        body_digest=digest,
        occurred_at=event.occurred_at or utc_now(),
    )
    session.add(row)
    session.flush()
    spread = event.kind == "outcome" and event.session_id is not None
    reached = _spread(session, turn) if spread else [(turn.id, 1.0)]
    role = "outcome" if event.kind == "outcome" else "feedback"
    for turn_id, weight in reached:
        piece = Piece(role, event.text or "", event.kind, event.value, weight)
        add_feedback(session, turn_id, row.id, piece)
    return Stored(feedback_view(session, row), new=True, observed=tuple(turn_id for turn_id, _ in reached))


def _target(session: Session, caller: Caller, event: Event) -> Turn:
    if event.turn_id is not None:
        turn, field = session.get(Turn, event.turn_id), "turn_id"
    elif event.response_id is not None:
        turn, field = _of_response(session, caller, event.response_id), "response_id"
    else:
        assert event.session_id is not None
        turn, field = _last_main(session, caller, event.session_id), "session_id"
    if turn is None or not _may_see(caller, turn.agent_id):
        raise NotFound(f"There is nothing with this {field}.", param=field)
    return turn


def _of_response(session: Session, caller: Caller, response_id: str) -> Turn | None:
    statement = select(Turn).where(Turn.response_id == response_id).order_by(col(Turn.choice_index))
    if caller.agent_id is not None:
        statement = statement.where(Turn.agent_id == caller.agent_id)
    return session.exec(statement).first()


def _last_main(session: Session, caller: Caller, name: str) -> Turn | None:
    conversation = find_session(session, caller, name)
    if conversation is None:
        return None
    statement = select(Turn).where(
        Turn.session_id == conversation.id, Turn.kind == "main", Turn.choice_index == 0
    )
    return session.exec(statement.order_by(col(Turn.id).desc()).limit(1)).first()


def find_session(session: Session, caller: Caller, name: str) -> Conversation | None:
    """A session of the caller's agent by our id, or by the name its key gave it."""
    ours = session.get(Conversation, name)
    if ours is not None:
        return ours if _may_see(caller, ours.agent_id) else None
    statement = select(Conversation).where(Conversation.external_id == name)
    if not caller.is_admin:
        statement = statement.where(Conversation.agent_id == caller.agent_id)
    found = session.exec(statement.order_by(col(Conversation.last_seen_at).desc())).all()
    own = [row for row in found if row.key_id == caller.key_id]
    return next(iter([*own, *found]), None)


def _spread(session: Session, last: Turn) -> list[tuple[str, float]]:
    """Whom a session's outcome reaches, with which weight: its last main turn, and those just before it.

    Each hears the value as it is. A value drawn towards 0.5 would be another verdict, or none.
    """
    turns = session.exec(
        select(Turn.id)
        .where(
            Turn.session_id == last.session_id,
            Turn.kind == "main",
            Turn.choice_index == 0,
            Turn.id <= last.id,
        )
        .order_by(col(Turn.id).desc())
        .limit(len(WEIGHTS))
    ).all()
    return list(zip(turns, WEIGHTS, strict=False))


def _may_see(caller: Caller, agent_id: str) -> bool:
    return caller.is_admin or caller.agent_id == agent_id


def find_event(session: Session, caller: Caller, feedback_id: str) -> Feedback:
    """An event of the caller's agent.

    Raises:
        NotFound: none of that id, or another agent's.
    """
    row = session.get(Feedback, feedback_id)
    if row is None or not _may_see(caller, row.agent_id):
        raise NotFound(f"There is no feedback {feedback_id[:64]}.")
    return row


def feedback_view(session: Session, row: Feedback) -> FeedbackView:
    """An event as the API shows it."""
    fields = {name: getattr(row, name) for name in FeedbackView.model_fields if name != "response_id"}
    return FeedbackView(**fields, response_id=session.get_one(Turn, row.turn_id).response_id)


class FeedbackRoutes:
    """The three routes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request) -> Response:
        """201 for a new event, 200 for one that is there already."""
        caller = await self._gateway.caller(request, "feedback")
        body: Json = await read_object(request, self._gateway.settings.max_body_bytes)
        event = parse(Event, body)
        check_event(event)
        event = await self._as_stored(event)
        stored = await self._gateway.write(lambda session: store_event(session, caller, event))
        self._gateway.wake_judge(stored.observed)
        return JsonResponse(stored.view.model_dump(mode="json"), 201 if stored.new else 200)

    async def _as_stored(self, event: Event) -> Event:
        if event.text is None or not self._gateway.settings.masks("storage"):
            return event
        masked = await anyio.to_thread.run_sync(mask, event.text)
        return event.model_copy(update={"text": masked.text})

    async def get(self, request: Request) -> Response:
        """One event."""
        caller = await self._gateway.caller(request, "feedback")
        feedback_id = request.path_params["feedback_id"]
        view = await self._gateway.read(
            lambda session: feedback_view(session, find_event(session, caller, feedback_id))
        )
        return JsonResponse(view.model_dump(mode="json"))

    async def delete(self, request: Request) -> Response:
        """Undo an event: its turns are judged again without it."""
        caller = await self._gateway.caller(request, "feedback")
        feedback_id = request.path_params["feedback_id"]

        def undo(session: Session) -> tuple[FeedbackView, list[str]]:
            row = find_event(session, caller, feedback_id)
            row.withdrawn_at = row.withdrawn_at or utc_now()
            session.add(row)
            observed = withdraw_feedback(session, row.id)
            return feedback_view(session, row), observed

        view, observed = await self._gateway.write(undo)
        self._gateway.wake_judge(observed)
        return JsonResponse(view.model_dump(mode="json"))
