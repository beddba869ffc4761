"""What can go wrong in the engine, each with the HTTP status and vLLM's error type it answers with.

EngineError
├── InvalidRequest     400  BadRequestError      the request asks for something impossible
├── AdapterRefused     400  InvalidUserInput     the adapter cannot be loaded, with the reason
├── NotFound           404  NotFoundError        no such model or adapter
├── QueueFull          503  Service Unavailable  try again later (Retry-After)
└── GenerationFailed   500  InternalServerError  the model's forward pass raised
StartFailed                 exit code 2          the process cannot start
"""


class EngineError(Exception):
    """Base of everything that is answered with an error body."""

    status = 500
    kind = "InternalServerError"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequest(EngineError):
    status = 400
    kind = "BadRequestError"


class Malformed(InvalidRequest):
    kind = "Bad Request"


class AdapterRefused(EngineError):
    status = 400
    kind = "InvalidUserInput"


class NotFound(EngineError):
    status = 404
    kind = "NotFoundError"


class QueueFull(EngineError):
    status = 503
    kind = "Service Unavailable"
    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__(
            "The engine is currently busy and cannot accept new requests. Please try again later or on a "
            "different instance."
        )


class GenerationFailed(EngineError):
    def __init__(self) -> None:
        super().__init__("Internal server error")


class StartFailed(Exception):
    """The engine cannot start; the message says why and the process exits with code 2."""
