"""How a client steers recording: headers, or body fields that are stripped before the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from afterturn_core.errors import RequestError

from .answers import Json
from .client_session import client_session

BODY_FIELDS = ("session_id", "turn_type", "session_done")
SESSION_ID_LENGTH = 256
USER_LENGTH = 512
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class TurnOptions:
    """What the client said about this turn; None is for us to infer.

    `session` was meant for us; `client_session` is what a stock client calls its conversation.
    """

    session: str | None = None
    client_session: str | None = None
    kind: Literal["main", "side"] | None = None
    done: bool = False
    train: bool = True
    store: bool = True


def read_options(headers: Mapping[str, str], body: Json) -> TurnOptions:
    """Read the options and take their fields out of `body`; a header wins over its field.

    Raises:
        RequestError: a value that means nothing.
    """
    fields = {name: body.pop(name, None) for name in BODY_FIELDS}
    return TurnOptions(
        session=_session(headers.get("x-session-id"), fields["session_id"]),
        client_session=client_session(headers, body),
        kind=_kind(headers.get("x-turn-type"), fields["turn_type"]),
        done=_switch("X-Session-Done", headers.get("x-session-done"), fields["session_done"], default=False),
        train=_switch("X-Afterturn-Train", headers.get("x-afterturn-train"), None, default=True),
        store=_switch("X-Afterturn-Store", headers.get("x-afterturn-store"), None, default=True),
    )


def client_user(body: Json) -> str | None:
    """Whom the client says that it speaks with, under the names that the protocols have for it."""
    metadata = body.get("metadata")
    named = metadata.get("user_id") if isinstance(metadata, dict) else None
    for value in (body.get("user"), body.get("safety_identifier"), named):
        if isinstance(value, str) and value:
            return stored_user(value)
    return None


def stored_user(name: str) -> str:
    """A client's name for a user as far as it is kept."""
    return name[:USER_LENGTH].replace("\0", "\ufffd")


def _session(header: str | None, field: object) -> str | None:
    value = header if header is not None else field
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise RequestError("session_id: a string", param="session_id")
    if len(value) > SESSION_ID_LENGTH:
        raise RequestError(f"session_id: at most {SESSION_ID_LENGTH} characters", param="session_id")
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise RequestError("session_id: no control characters", param="session_id")
    return value


def _kind(header: str | None, field: object) -> Literal["main", "side"] | None:
    value = header if header is not None else field
    if value is None or value == "":
        return None
    word = value.strip().lower() if isinstance(value, str) else value
    if word == "main":
        return "main"
    if word == "side":
        return "side"
    raise RequestError("turn_type: main or side", param="turn_type")


def _switch(name: str, header: str | None, field: object, *, default: bool) -> bool:
    value = header if header is not None else field
    if value is None:
        return default
    word = str(value).strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise RequestError(f"{name}: on or off", param=name)
