"""Refusals of the scripted engine, in the shape vLLM gives them.

EngineError
├── BadRequest      400, a request that makes no sense
│   ├── InvalidInput    400, an adapter call that makes no sense
│   └── Malformed       400, a body that is not what the route reads
├── NotFound        404
├── ClientLeft      499, told to nobody
└── Broken          any status that a script asks for
"""

from http import HTTPStatus

from afterturn_engine.scripted.wire import Json


class EngineError(Exception):
    """A request that gets an error body; `status` is also the body's `code`."""

    status: int = 500
    kind: str = "InternalServerError"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    @property
    def body(self) -> Json:
        return {
            "error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.status},
        }


class BadRequest(EngineError):
    status = 400
    kind = "BadRequestError"


class InvalidInput(BadRequest):
    kind = "InvalidUserInput"


class Malformed(BadRequest):
    kind = "Bad Request"


class NotFound(EngineError):
    status = 404
    kind = "NotFoundError"


class ClientLeft(EngineError):
    status = 499
    kind = "ClientClosedRequest"


class Broken(EngineError):
    """A failure that the script asks for."""

    def __init__(self, message: str, status: int, retry_after_s: int | None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = HTTPStatus(status).phrase.replace(" ", "").removesuffix("Error") + "Error"
        self.retry_after_s = retry_after_s
