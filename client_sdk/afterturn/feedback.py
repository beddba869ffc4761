"""Feedback: what a person or a check says about a turn."""

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from afterturn.decoding import decoder, nothing
from afterturn.delivery import Delivery, Flush, Pending
from afterturn.event import About, event_body, fraction, some
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import segment


@dataclass(frozen=True)
class FeedbackEvent:
    """An event as the server stores it."""

    id: str
    kind: str
    value: float | None = None
    text: str | None = None
    turn_id: str | None = None
    response_id: str | None = None
    session_id: str | None = None
    idempotency_key: str | None = None
    occurred_at: datetime | None = None
    created_at: datetime | None = None
    source: str | None = None


def thumb(
    turn_id: str | None = None, *, up: bool, text: str | None = None, **about: Unpack[About]
) -> Delivery:
    """Thumb up or down, with a word about why."""
    return Delivery(event_body("thumb", turn_id, about, value=1 if up else -1, text=text))


def score(
    turn_id: str | None = None, value: float | None = None, *, text: str | None = None, **about: Unpack[About]
) -> Delivery:
    """A grade from 0 (bad) to 1 (good)."""
    return Delivery(event_body("score", turn_id, about, value=fraction("value", value), text=text))


def correct(turn_id: str | None = None, text: str = "", **about: Unpack[About]) -> Delivery:
    """What should have been done instead: a hint, and a verdict of -1."""
    return Delivery(event_body("correction", turn_id, about, text=some("text", text)))


def prefer(turn_id: str | None = None, text: str = "", **about: Unpack[About]) -> Delivery:
    """The reply that was wanted, in full."""
    return Delivery(event_body("preferred", turn_id, about, text=some("text", text)))


def comment(turn_id: str | None = None, text: str = "", **about: Unpack[About]) -> Delivery:
    """A remark, for the judge to read."""
    return Delivery(event_body("comment", turn_id, about, text=some("text", text)))


def outcome(
    turn_id: str | None = None, value: float | None = None, *, text: str | None = None, **about: Unpack[About]
) -> Delivery:
    """How it turned out, from 0 (failed) to 1 (succeeded); for a session it reaches its last turns."""
    return Delivery(event_body("outcome", turn_id, about, value=fraction("value", value), text=text))


def get(feedback_id: str) -> Call[FeedbackEvent]:
    """An event as stored."""
    return Call("GET", f"/v1/feedback/{segment(feedback_id)}", decoder(FeedbackEvent))


def delete(feedback_id: str) -> Call[None]:
    """Take an event back. Adapters that used it are marked stale."""
    return Call("DELETE", f"/v1/feedback/{segment(feedback_id)}", nothing)


def pending() -> Pending:
    """The events that wait on disk for the server, oldest first."""
    return Pending()


def flush() -> Flush:
    """Deliver the events that wait. Raises `ConnectionFailed` if the server is still away; they stay."""
    return Flush()


class Feedback(Namespace):
    """Verbs about feedback; every new event is kept on disk if the server is away."""

    thumb = blocking(thumb)
    score = blocking(score)
    correct = blocking(correct)
    prefer = blocking(prefer)
    comment = blocking(comment)
    outcome = blocking(outcome)
    get = blocking(get)
    delete = blocking(delete)
    pending = blocking(pending)
    flush = blocking(flush)


class AsyncFeedback(AsyncNamespace):
    """Verbs about feedback; every new event is kept on disk if the server is away."""

    thumb = awaited(thumb)
    score = awaited(score)
    correct = awaited(correct)
    prefer = awaited(prefer)
    comment = awaited(comment)
    outcome = awaited(outcome)
    get = awaited(get)
    delete = awaited(delete)
    pending = awaited(pending)
    flush = awaited(flush)
