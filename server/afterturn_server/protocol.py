"""What a protocol says to the gateway: a request in chat terms, and the words of its answer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import AfterturnError

from .answers import Json
from .conversation import Conversation
from .events import KEEP_ALIVE
from .gateway import Gateway
from .recording import Answered, Asked


class Wording(ABC):
    """One answer in the client's protocol; it is told what the engine sends, and remembers it for the record.

    Every method that answers bytes gives whole server-sent events.
    """

    @abstractmethod
    def chunk(self, chunk: Json) -> bytes:
        """The events that one chunk of the engine leads to."""

    @abstractmethod
    def done(self) -> bytes:
        """The last events; they are sent when the record is committed."""

    @abstractmethod
    def failed(self, error: AfterturnError) -> bytes:
        """The last events of an answer that broke off."""

    @abstractmethod
    def whole(self, reply: Json) -> Json:
        """The body that answers a request without a stream, of the engine's whole reply."""

    @abstractmethod
    def records(self, interrupted: str | None = None) -> Sequence[tuple[Asked, Answered]]:
        """What is to be recorded of what has come; `interrupted` says why no more will."""

    def opening(self) -> bytes:
        """The events that go out with the status, before the engine has said anything."""
        return b""

    def keep_alive(self) -> bytes:
        """What is sent in a long silence."""
        return KEEP_ALIVE


@dataclass(frozen=True)
class Call:
    """A request, understood: what is recorded of it, what the engine is asked, and how it is answered."""

    conversation: Conversation
    path: str
    body: Json
    stream: bool
    wording: Callable[[Asked], Wording]


class Protocol(ABC):
    """One of the public APIs that this gateway speaks."""

    name: str

    @abstractmethod
    async def read(self, gateway: Gateway, request: Request, body: Json) -> Call:
        """Check and translate a request.

        Raises:
            RequestError: it is wrong; `param` names the field in the client's own words.
        """

    @abstractmethod
    def refusal(self, error: AfterturnError) -> Response:
        """The answer to a request that failed before it was answered."""
