"""`POST /v1/chat/completions`: the engine's own protocol, passed through without what was not asked for."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import AfterturnError

from .answers import Json, error_body, error_response, event
from .chat_request import ChatRequest, check_chat, engine_body, sampling_of
from .conversation import Conversation
from .events import DONE
from .gateway import Gateway
from .protocol import Call, Protocol, Wording
from .recording import Answered, Asked
from .reply import ChatDraft, Shown, read_reply
from .turn_options import client_user

PATH = "/v1/chat/completions"


class ChatProtocol(Protocol):
    """OpenAI's chat completions."""

    name = "chat"

    async def read(self, gateway: Gateway, request: Request, body: Json) -> Call:
        """Check a request; nearly all of it passes untouched."""
        checked = check_chat(body)
        conversation = Conversation(
            self.name,
            checked.model,
            body["messages"],
            body.get("tools"),
            sampling_of(body),
            client_user=client_user(body),
        )
        return Call(
            conversation,
            PATH,
            engine_body(body),
            bool(checked.stream),
            lambda asked: ChatWording(asked, _shown(asked, checked)),
        )

    def refusal(self, error: AfterturnError) -> Response:
        """OpenAI's error object."""
        return error_response(error)


class ChatWording(Wording):
    """The engine's chunks and bodies as this client wants them."""

    def __init__(self, asked: Asked, shown: Shown) -> None:
        self._asked = asked
        self._shown = shown
        self._draft = ChatDraft()
        self._answered: Answered | None = None

    def chunk(self, chunk: Json) -> bytes:
        """The chunk itself."""
        self._draft.add(chunk)
        self._shown.strip_chunk(chunk)
        return event(chunk)

    def done(self) -> bytes:
        """`[DONE]`."""
        return DONE

    def failed(self, error: AfterturnError) -> bytes:
        """OpenAI's error object as an event; `[DONE]` would say that the reply is whole and recorded."""
        return event(error_body(error))

    def whole(self, reply: Json) -> Json:
        """The reply itself."""
        self._answered = read_reply(reply)
        self._shown.strip(reply)
        return reply

    def records(self, interrupted: str | None = None) -> Sequence[tuple[Asked, Answered]]:
        """One record, of one turn for each choice."""
        return [(self._asked, self._answered or self._draft.answered(interrupted))]


def _shown(asked: Asked, checked: ChatRequest) -> Shown:
    return Shown(
        model=checked.model,
        session_id=asked.place.session_id if asked.options.store else None,
        logprobs=bool(checked.logprobs),
        token_ids=bool(checked.return_token_ids),
        usage=checked.stream_options is not None and bool(checked.stream_options.include_usage),
    )
