"""Bodies and responses of the gateway: JSON through orjson, errors in OpenAI's shape."""

import json
import math
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import Response

from afterturn_core.errors import AfterturnError, RequestError

Json = dict[str, Any]
ANTHROPIC_HEADER = "anthropic-version"  # Anthropic's clients send it with whatever they ask


class JsonResponse(Response):
    """JSON, serialised by orjson."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The content as UTF-8 JSON."""
        try:
            return orjson.dumps(content)
        except orjson.JSONEncodeError:  # a model may call a tool with any number, and nest it as it likes
            return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()


def event(body: Json, name: str | None = None) -> bytes:
    """One server-sent event, with a name where the protocol gives it one."""
    data = b"data: " + orjson.dumps(body) + b"\n\n"
    return data if name is None else b"event: " + name.encode() + b"\n" + data


def error_body(error: AfterturnError) -> Json:
    """OpenAI's error object."""
    return {
        "error": {
            "message": public_message(error),
            "type": error.type,
            "param": error.param,
            "code": error.code,
        }
    }


def public_message(error: AfterturnError) -> str:
    """What a client is told; internal failures say nothing about the inside."""
    return error.message if error.code != "internal_error" else "The server had an internal error."


def error_headers(error: AfterturnError) -> dict[str, str]:
    """`Retry-After` in whole seconds, when the error knows when to come back."""
    if error.retry_after is None:
        return {}
    return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}


def error_response(error: AfterturnError) -> Response:
    """The answer to a request that failed."""
    return JsonResponse(error_body(error), error.status, error_headers(error))


def invalid(problems: ValidationError | RequestValidationError) -> RequestError:
    """The first problem that pydantic found, with the field's dotted path as `param`."""
    # FastAPI's locations begin with "body" or "query", which is not part of the field's name.
    skip = 1 if isinstance(problems, RequestValidationError) else 0
    found = [(field_path(problem["loc"][skip:]), problem["msg"]) for problem in problems.errors()]
    first = found[0][0]
    # Of a union's branches the one that got furthest is the one that was meant.
    path, message = max((one for one in found if one[0].startswith(first)), key=lambda one: len(one[0]))
    return RequestError(f"{path or 'body'}: {message}", param=path or None)


def field_path(location: tuple[int | str, ...]) -> str:
    """`messages[0].role`: names joined by dots, positions in brackets."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.endswith("]") and part not in _UNION_BRANCHES:
            path += f".{part}" if path else part
    return path


# Pydantic names the branch of a union that it tried; a client wants the field only.
_UNION_BRANCHES = frozenset({"str", "float", "int", "bool", "dict", "list"})
