"""A feedback event, before it is sent."""

import math
import uuid
from datetime import UTC, datetime
from typing import TypedDict

from afterturn.wire import JSONObject


class About(TypedDict, total=False):
    """What every event may say: a target other than a turn, and what makes it the same when sent again."""

    response_id: str  # the reply's own `id`
    session_id: str  # stands for its last main turn
    idempotency_key: str  # default: a new one
    occurred_at: datetime  # with a time zone; default: now
    source: str  # who says so, e.g. "nightly-tests"


def event_body(
    kind: str, turn_id: str | None, about: About, *, value: float | None = None, text: str | None = None
) -> JSONObject:
    """What is posted. It is fixed here, once: a retry, even days later, sends the same event.

    Raises `ValueError` unless exactly one target is named, or for a time without a zone.
    """
    if unknown := about.keys() - About.__annotations__.keys():
        raise TypeError(f"unexpected argument {min(unknown)!r}")
    targets = {
        "turn_id": turn_id,
        "response_id": about.get("response_id"),
        "session_id": about.get("session_id"),
    }
    named: JSONObject = {name: target for name, target in targets.items() if target}
    if len(named) != 1:
        raise ValueError("name exactly one of turn_id, response_id, session_id")
    moment = about.get("occurred_at") or datetime.now(UTC)
    if moment.tzinfo is None:
        raise ValueError("occurred_at needs a time zone")
    optional: JSONObject = {"value": value, "text": text, "source": about.get("source")}
    return {
        **named,
        "kind": kind,
        "idempotency_key": about.get("idempotency_key") or uuid.uuid4().hex,
        "occurred_at": moment.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        **{name: member for name, member in optional.items() if member is not None},
    }


def fraction(name: str, value: float | None) -> float:
    """`value`, which must lie in 0..1. Raises `ValueError`."""
    if value is None or not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError(f"{name} lies between 0 and 1, not {value}")
    return float(value)


def some(name: str, text: str) -> str:
    """`text`, which must say something. Raises `ValueError`."""
    if not text.strip():
        raise ValueError(f"{name} is empty")
    return text
