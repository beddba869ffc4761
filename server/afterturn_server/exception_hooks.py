"""What is answered when a request fails outside the routes that generate: in the shape its client knows."""

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from structlog.stdlib import get_logger

from afterturn_core.errors import AfterturnError, MethodNotAllowed, NotFound, RequestError

from .answers import ANTHROPIC_HEADER, error_response, invalid
from .messages.refusal import messages_refusal

log = get_logger(__name__)

_ANTHROPICS = "/v1/messages"


def refusal(request: Request, error: AfterturnError) -> Response:
    """Anthropic's error object where its clients ask, OpenAI's everywhere else."""
    if request.url.path.startswith(_ANTHROPICS) or ANTHROPIC_HEADER in request.headers:
        return messages_refusal(error)
    return error_response(error)


async def answer_afterturn_error(request: Request, error: Exception) -> Response:
    """Exception hook: an error raised on purpose."""
    assert isinstance(error, AfterturnError)
    if error.status >= 500:
        log.warning("request_failed", code=error.code, status=error.status)
    return refusal(request, error)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Exception hook: what Starlette itself refuses."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        refused: AfterturnError = MethodNotAllowed(f"{request.method} is not allowed on {path}")
    elif error.status_code == 404:
        refused = NotFound(f"Unknown request URL: {request.method} {path}", code="unknown_url")
    else:
        refused = RequestError(str(error.detail))
        refused.status = error.status_code
    response = refusal(request, refused)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def answer_invalid(request: Request, error: Exception) -> Response:
    """Exception hook: a body that FastAPI could not read."""
    assert isinstance(error, RequestValidationError)
    return refusal(request, invalid(error))


async def answer_internal_error(request: Request, error: Exception) -> Response:
    """Exception hook: a bug. The log has the traceback, the client does not."""
    log.error("internal_error", path=request.url.path, error=type(error).__name__)
    return refusal(request, AfterturnError("internal error"))


EXCEPTION_HOOKS: Mapping[Any, Any] = {
    AfterturnError: answer_afterturn_error,
    HTTPException: answer_http_exception,
    RequestValidationError: answer_invalid,
    Exception: answer_internal_error,
}
