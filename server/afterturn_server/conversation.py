"""What a request of any protocol says, in chat terms."""

from collections.abc import Sequence
from dataclasses import dataclass

from .answers import Json
from .recording import Original


@dataclass(frozen=True)
class Conversation:
    """A request's conversation; `masked` says that something of it was masked, see `masked`."""

    protocol: str
    model: str
    messages: Sequence[Json]
    tools: Sequence[Json] | None
    sampling: Json
    original: Original | None = None
    client_user: str | None = None
    previous: str | None = None  # the response that the client says it goes on from
    masked: bool = False
