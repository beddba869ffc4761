"""Errors in Anthropic's shape."""

from starlette.responses import Response

from afterturn_core.errors import AfterturnError, ContextLengthExceeded

from ..answers import Json, JsonResponse, error_headers, public_message

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(error: AfterturnError) -> Json:
    """Anthropic's error object. It has no place for the field that is wrong: the message names it."""
    message = public_message(error)
    if isinstance(error, ContextLengthExceeded):
        message = f"prompt is too long: {message}"  # what its clients look for before they compact
    elif error.param and error.param not in message:
        message = f"{error.param}: {message}"
    return {"type": "error", "error": {"type": _TYPES.get(error.status, "api_error"), "message": message}}


def messages_refusal(error: AfterturnError) -> Response:
    """The answer to a messages request that failed."""
    return JsonResponse(error_body(error), error.status, error_headers(error))
