"""Everything the client raises.

    AfterturnError
    ├── ConfigurationError      the client was built with something it cannot use
    │   └── MissingKey          the verb needs a key that was not given
    ├── MissingExtra            an optional package is not installed (also an ImportError)
    ├── OutboxFull              the server is away and no more events can be kept on disk
    ├── WaitTimedOut            a round did not end within the time given (also a TimeoutError)
    ├── ConnectionFailed        no reply arrived
    │   └── RequestTimedOut     … within the time given
    ├── MalformedReply          a reply arrived that the client cannot read
    └── StatusError             the server refused: status, request id, body
        ├── BadRequest          400, 422: `field` names what is wrong
        ├── Unauthorized        401
        ├── Forbidden           403
        ├── NotFound            404
        ├── Conflict            409
        ├── TooManyRequests     429
        └── ServerError         500 and above

Keys never appear in a message, a body or a repr: a server that echoes one is masked on arrival.
A wrong argument (a score of 3, two targets) is a plain `ValueError`, raised before anything is sent.
"""

from afterturn.wire import JSON


class AfterturnError(Exception):
    """Any failure of this client."""


class ConfigurationError(AfterturnError, ValueError):
    """The client was built with something it cannot use."""


class MissingKey(ConfigurationError):
    """The verb needs an API key or an admin key that was not given."""


class MissingExtra(AfterturnError, ImportError):
    """An optional package is not installed."""


class OutboxFull(AfterturnError):
    """The server is away and the outbox has reached its bound; nothing was dropped to make room."""


class WaitTimedOut(AfterturnError, TimeoutError):
    """A round did not end within the time given; it goes on."""


class ConnectionFailed(AfterturnError):
    """No reply arrived. `sent` is False when it is certain that the server never saw the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimedOut(ConnectionFailed):
    """No reply arrived within the time given."""


class MalformedReply(AfterturnError):
    """A reply arrived that the client cannot read."""


class StatusError(AfterturnError):
    """The server refused a request.

    Attributes: `status` (HTTP), `request_id` (the server's, if it names one), `body` (parsed JSON, or text),
    `code` and `field` (from the error body), `retry_after` (seconds, if the server names them).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        request_id: str | None,
        body: JSON,
        code: str | None,
        field: str | None,
        retry_after: float | None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.body = body
        self.code = code
        self.field = field
        self.retry_after = retry_after

    def __str__(self) -> str:
        where = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.status}: {self.args[0]}{where}"


class BadRequest(StatusError):
    """400 or 422: the server did not understand the request; `field` names what is wrong."""


class Unauthorized(StatusError):
    """401: no key, or one that is unknown, revoked or expired."""


class Forbidden(StatusError):
    """403: the key lacks the scope."""


class NotFound(StatusError):
    """404: unknown, or another agent's."""


class Conflict(StatusError):
    """409: the state does not allow it, or an idempotency key was used for something else."""


class TooManyRequests(StatusError):
    """429: a limit of this key; `retry_after` says when to come back."""


class ServerError(StatusError):
    """500 and above."""


def status_error_class(status: int) -> type[StatusError]:
    """The class that stands for an HTTP status."""
    if status >= 500:
        return ServerError
    named: dict[int, type[StatusError]] = {
        400: BadRequest,
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        422: BadRequest,
        429: TooManyRequests,
    }
    return named.get(status, StatusError)
