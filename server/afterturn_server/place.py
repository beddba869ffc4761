"""Where a turn hangs in its conversation."""

from dataclasses import dataclass

from afterturn_core.lifecycle import Piece


@dataclass(frozen=True)
class Ancestor:
    """An earlier turn of this conversation, and what this history says came after it."""

    turn_id: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Place:
    """Where a turn hangs. `pieces` is what the request carries after the parent's reply, which is at
    `position` of its history; it carries the replies of `equals` just as well."""

    session_id: str
    new_session: bool
    external_id: str | None
    parent_id: str | None
    attempt_of: str | None
    kind: str
    kind_reason: str
    pieces: tuple[Piece, ...]
    ancestors: tuple[Ancestor, ...]
    position: int | None = None
    equals: tuple[str, ...] = ()
