"""What a JSON object that a tool returned declares: a status, an error, success, or nothing found."""

import json
import re
from typing import Final

from afterturn_extractor.tool_reading import EMPTY, ENVIRONMENT, ERROR, ToolReading

# What the server is to blame for, or the operator's keys.
_OF_THE_SERVER: Final = frozenset({401, 407, 408, 425, 429, 500, 502, 503, 504, 507, 509, 511})
_FAILED_STATUS: Final = ("error", "errored", "failed", "failure", "fail", "invalid", "rejected", "not_found")
_WAITING_STATUS: Final = re.compile(
    r"(?:pending|awaiting|waiting|requires?|needs?)\w*(?:approval|confirmation|consent|review|user|auth)|"
    r"(?:approval|confirmation|auth)\w*(?:pending|required|needed)|rate_?limit\w*|timed?_?out|unavailable|throttled",
    re.I,
)
_STATUS_KEYS: Final = ("status", "code", "statusCode", "status_code", "http_status", "state")
_FAILED_KEYS: Final = (
    "error",
    "errors",
    "err",
    "error_message",
    "errorMessage",
    "error_description",
    "exception",
    "traceback",
)
_EXIT_KEYS: Final = ("exit_code", "returncode", "exitCode")
# Counts of a job done in parts; the second kind means something only beside the first.
_DONE_COUNTS: Final = (
    "created",
    "updated",
    "deleted",
    "sent",
    "succeeded",
    "passed",
    "processed",
    "imported",
    "ok",
)
_FAILED_COUNTS: Final = ("failed", "failures", "failed_count", "error_count")

Object = dict[str, object]


def parsed(text: str) -> Object | None:
    """The JSON object that a text is, if it is one."""
    if not text.startswith("{"):
        return None
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):  # the second for brackets nested without end
        return None
    return result if isinstance(result, dict) else None


def of_status(status: int) -> ToolReading:
    """An HTTP status of 400 to 599: the server's fault or the request's."""
    return ENVIRONMENT if status in _OF_THE_SERVER else ERROR


def by_structure(result: Object) -> ToolReading | None:
    """What an object says by a status or by holding nothing; None where it says neither."""
    nested = result.get("error")
    places = [result, nested] if isinstance(nested, dict) else [result]
    for status in (place.get(key) for place in places for key in _STATUS_KEYS):
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
            return of_status(status)
        if isinstance(status, str) and _WAITING_STATUS.search(status):
            return ENVIRONMENT
    failed = any(result.get(key) for key in _FAILED_KEYS)
    return EMPTY if not failed and _hollow(result) else None


def declared(result: Object) -> str | None:
    """The error message an object declares; "" if it declares success, None if it declares nothing."""
    failed = next((str(result[key]) for key in _FAILED_KEYS if result.get(key)), "")
    code = next((result[key] for key in _EXIT_KEYS if key in result), None)
    if failed or (isinstance(code, int) and code != 0) or result.get("is_error") or result.get("isError"):
        return failed or str(
            result.get("output") or result.get("stderr") or result.get("content") or "failed"
        )
    if (
        _answer(result, "success") is False
        or _answer(result, "ok") is False
        or str(result.get("status")).casefold() in _FAILED_STATUS
        or _partly_failed(result)
    ):
        return str(result.get("message") or result.get("reason") or "failed")
    if code == 0 or _answer(result, "success") is True or _answer(result, "ok") is True:
        return ""
    return None


def _answer(result: Object, key: str) -> bool | None:
    """A yes or no, also where a program wrote it as text."""
    value = result.get(key)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.casefold())
    return value if isinstance(value, bool) else None


def _partly_failed(result: Object) -> bool:
    return any(_is_count(result.get(key)) for key in _DONE_COUNTS) and any(
        result.get(key) for key in _FAILED_COUNTS
    )


def _hollow(result: Object) -> bool:
    """Nothing but empty collections, zeros and marks of success: a search that found nothing."""
    collections = [value for value in result.values() if isinstance(value, list | dict)]
    counts = [value for value in result.values() if _is_count(value)]
    empty = all(not value or (isinstance(value, dict) and _hollow(value)) for value in collections)
    return bool(collections) and empty and not any(counts)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
