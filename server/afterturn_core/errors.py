"""Every error that Afterturn raises on purpose.

AfterturnError
├── SettingsError                  a setting that cannot work (exit code 2)
├── RequestError (400)             the request is wrong; `param` names the field
│   ├── ContextLengthExceeded      prompt and reply do not fit the model
│   └── BodyTooLarge (413)
├── AuthenticationError (401)
├── PermissionDenied (403)
├── NotFound (404)
│   └── ModelNotFound
├── MethodNotAllowed (405)
├── Conflict (409)                 the state of things forbids it
│   └── LostLease                  another worker holds the round now
├── RateLimited (429)              `retry_after` seconds
├── Unavailable (503)              overloaded or a dependency is away; `retry_after` seconds
│   └── DatabaseAway               it does not answer, or takes no writes
├── EngineError (502)              the engine failed or answered nonsense
│   └── EngineTimeout (504)
├── AdapterError (400)             an adapter folder that must not be served
├── RoundFailed                    a round that cannot go on; the live adapter is untouched
└── SchemaError                    the database's schema is not this version's
"""


class AfterturnError(Exception):
    """Base of the tree; `status` is the HTTP answer, `code` the machine-readable reason."""

    status: int = 500
    type: str = "server_error"
    code: str | None = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        if code is not None:
            self.code = code


class SettingsError(AfterturnError):
    """A setting that cannot work; the message names the variable and what it accepts."""


class RequestError(AfterturnError):
    """The request is wrong; `param` is the dotted path of the field."""

    status = 400
    type = "invalid_request_error"
    code: str | None = None


class ContextLengthExceeded(RequestError):
    """Prompt plus reply do not fit into the model's context."""

    code = "context_length_exceeded"


class BodyTooLarge(RequestError):
    """The request body is over the limit."""

    status = 413
    code = "request_too_large"


class AuthenticationError(AfterturnError):
    """No key, or one that is unknown, revoked or expired."""

    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"


class PermissionDenied(AfterturnError):
    """The key exists but lacks the scope."""

    status = 403
    type = "invalid_request_error"
    code = "permission_denied"


class NotFound(AfterturnError):
    """No such object, or it belongs to another agent."""

    status = 404
    type = "invalid_request_error"
    code = "not_found"


class ModelNotFound(NotFound):
    """The `model` of a request names nothing served here."""

    code = "model_not_found"


class MethodNotAllowed(AfterturnError):
    """The route exists, the method does not."""

    status = 405
    type = "invalid_request_error"
    code = "method_not_allowed"


class Conflict(AfterturnError):
    """The state of things forbids what was asked."""

    status = 409
    type = "invalid_request_error"
    code = "conflict"


class LostLease(Conflict):
    """Another worker holds this round now; whoever gets this must stop at once."""

    code = "lost_lease"


class RateLimited(AfterturnError):
    """Over the key's limits."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"


class Unavailable(AfterturnError):
    """Overloaded, or something needed is away for now."""

    status = 503
    type = "server_error"
    code = "unavailable"


class DatabaseAway(Unavailable):
    """The database does not answer, or takes no writes: locked, full, read-only, stopped."""

    code = "database_unavailable"


class EngineError(AfterturnError):
    """The engine failed or answered what its dialect does not allow."""

    status = 502
    type = "server_error"
    code = "engine_error"


class EngineTimeout(EngineError):
    """The engine did not answer in time."""

    status = 504
    code = "engine_timeout"


class AdapterError(AfterturnError):
    """An adapter folder that must not be served; the message says why."""

    status = 400
    type = "invalid_request_error"
    code = "bad_adapter"


class RoundFailed(AfterturnError):
    """A round that cannot go on; its turns go back and the live adapter is untouched."""

    code = "round_failed"


class SchemaError(AfterturnError):
    """The database was made by another version; the message says what to run."""

    code = "schema_mismatch"
