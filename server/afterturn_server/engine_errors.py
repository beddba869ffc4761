"""The engine's errors in OpenAI's words."""

import re
from typing import Any

import httpx
import orjson

from afterturn_core.errors import (
    AfterturnError,
    ContextLengthExceeded,
    EngineError,
    EngineTimeout,
    RequestError,
    Unavailable,
)

OVERLOAD_RETRY_S = 2.0

_POSITION = re.compile(r"\.(\d+)")


async def refusal(response: httpx.Response, key: str) -> AfterturnError:
    """What an engine's refusal means to a client; closes the response. `key` is never repeated."""
    try:
        raw = await response.aread()
    except httpx.HTTPError as error:
        return transport_failure(error)
    finally:
        await response.aclose()
    message, param = told(raw)
    if key:
        message = message.replace(key, "[redacted]")
    status = response.status_code
    if status in (429, 503):
        retry = response.headers.get("retry-after", "")
        seconds = float(retry) if retry.isdigit() else OVERLOAD_RETRY_S
        return Unavailable("The engine is overloaded.", code="engine_overloaded", retry_after=seconds)
    if status in (408, 504):
        return EngineTimeout("The engine did not answer in time.")
    if status in (400, 422):
        if "context length" in message or param == "input_tokens":
            return ContextLengthExceeded(message, param="messages")
        return RequestError(message, param=_bare(param))
    return EngineError(f"The engine failed with HTTP {status}.", code="engine_error")


def transport_failure(error: httpx.HTTPError) -> EngineError:
    """An engine that did not answer, or broke off."""
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout):
        return EngineTimeout("The engine did not answer in time.")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return EngineError("The engine cannot be reached.", code="engine_unreachable")
    return EngineError("The connection to the engine broke.", code="engine_connection_broken")


def told(raw: bytes) -> tuple[str, str | None]:
    """The message of an engine's error and the field that it names, if any."""
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return "The engine refused the request.", None
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return "The engine refused the request.", None
    param = error.get("param")
    return error["message"], param if isinstance(param, str) else None


def _bare(param: str | None) -> str | None:
    return _POSITION.sub(r"[\1]", param.removeprefix("body.")) if param else None
