"""What is tried again, when, and what a refusal is raised as."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from afterturn.context import Context
from afterturn.errors import (
    AfterturnError,
    ConnectionFailed,
    MalformedReply,
    StatusError,
    status_error_class,
)
from afterturn.wire import JSON, Exchange, Flow, Pause, Response, exchange

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
# A server that asks for more patience than this gets an error with `retry_after` instead of a blocked caller.
LONGEST_RETRY_AFTER_S = 30.0
AWAY = frozenset({408, 429, 502, 503, 504})


def is_away(error: AfterturnError) -> bool:
    """Whether the server could not take the request now, and may later."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, StatusError) and error.status in AWAY)


def retry_delay(error: AfterturnError, *, attempt: int, safe: bool, jitter: float) -> float | None:
    """Seconds before the next attempt, or None if there should be none.

    `safe` says that doing it twice is doing it once. What the server certainly never saw may always be tried
    again. `attempt` counts from 0; `jitter` is in [0, 1). Exponential, with half of it at random.
    """
    never_seen = isinstance(error, ConnectionFailed) and not error.sent
    if not (never_seen or (safe and is_away(error))):
        return None
    delay: float = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0**attempt) * (0.5 + 0.5 * jitter)
    asked = error.retry_after if isinstance(error, StatusError) else None
    if asked is None:
        return delay
    return asked + FIRST_DELAY_S * jitter if asked <= LONGEST_RETRY_AFTER_S else None


def attempts(step: Exchange, context: Context, *, safe: bool) -> Flow[Response]:
    """`step`, tried as often as is safe and allowed.

    Raises `ConnectionFailed` or a `StatusError` when the last attempt failed.
    """
    attempt = 0
    while True:
        error: AfterturnError
        try:
            response = yield from exchange(step)
            if 200 <= response.status < 300:
                return response
            error = status_error(response, context)
        except ConnectionFailed as failure:
            error = failure
        delay = retry_delay(error, attempt=attempt, safe=safe, jitter=context.jitter())
        if delay is None or attempt >= context.max_retries:
            raise error
        yield Pause(delay)
        attempt += 1


def parse_json(response: Response) -> JSON:
    """The body of a reply; an empty one is None. Raises `MalformedReply`."""
    if not response.content.strip():
        return None
    try:
        parsed: JSON = json.loads(response.content)
    except ValueError as error:
        raise MalformedReply(f"status {response.status} with a body that is not JSON") from error
    return parsed


def status_error(response: Response, context: Context) -> StatusError:
    """The error for a refusal, with our keys masked wherever the server put them."""
    text = context.mask(response.content.decode("utf-8", "replace"))
    body: JSON
    try:
        body = json.loads(text)
    except ValueError:
        body = text
    details = body.get("error", body) if isinstance(body, dict) else None
    named = details if isinstance(details, dict) else {}

    def member(name: str) -> str | None:
        found = named.get(name)
        return found if isinstance(found, str) else None

    return status_error_class(response.status)(
        member("message") or (text[:200] if text.strip() else "no reason given"),
        status=response.status,
        request_id=response.headers.get("x-request-id"),
        body=body,
        code=member("code"),
        field=member("param"),
        retry_after=retry_after(response.headers.get("retry-after"), now=datetime.now(UTC)),
    )


def retry_after(header: str | None, *, now: datetime) -> float | None:
    """Seconds asked for by a Retry-After header (a number or a date), never negative; None if unreadable."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())
