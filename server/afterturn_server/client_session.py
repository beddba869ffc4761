"""The session that stock clients name in their own ways, without having been told of ours."""

import re
from collections.abc import Mapping

import orjson

from .answers import Json

LENGTH = 256
# Codex; pi, where its session headers are switched on. `x-session-affinity` is not among them: nanobot sends
# one a process, for all its conversations.
_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "thread-id")
# A cache key may be anything, also one for all conversations of a program; only a unique one names one.
_UNIQUE = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}(?::\d+)?|ses_\w{12,64}")


def client_session(headers: Mapping[str, str], body: Json) -> str | None:
    """What the client calls this conversation; None if it says nothing that could be trusted to be one.

    A name that cannot be one (too long, with control characters) is passed over: it was not meant for us.
    """
    found = next((headers[name] for name in _HEADERS if headers.get(name)), None)
    found = found or _of_metadata(body.get("metadata")) or _of_cache_key(body.get("prompt_cache_key"))
    if found is None or len(found) > LENGTH or not found.isprintable():
        return None
    return found


def _of_metadata(metadata: object) -> str | None:
    """Claude Code's `metadata.user_id`: JSON in a string; in older versions words joined by underscores."""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return None
    if user.startswith("{"):
        try:
            inside = orjson.loads(user)
        except orjson.JSONDecodeError:
            return None
        named = inside.get("session_id") if isinstance(inside, dict) else None
        return named if isinstance(named, str) and named else None
    _, found, named = user.rpartition("_session_")
    return named if found and named else None


def _of_cache_key(key: object) -> str | None:
    if not isinstance(key, str) or _UNIQUE.fullmatch(key) is None:
        return None
    return key
