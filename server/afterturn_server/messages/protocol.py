"""The routes of Anthropic's protocol."""

import orjson
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import AfterturnError, EngineError
from afterturn_core.ids import new_id

from ..answers import Json, JsonResponse
from ..body import read_object
from ..chat import PATH as CHAT_PATH
from ..chat_request import sampling_of
from ..conversation import Conversation
from ..gateway import Gateway
from ..protocol import Call, Protocol
from ..recording import Original
from ..resolution import resolve
from ..turn_options import client_user
from .refusal import messages_refusal
from .request import check_messages, check_prompt
from .translation import engine_body, prompt_fields
from .wording import MessagesWording

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"


class MessagesProtocol(Protocol):
    """Anthropic's messages."""

    name = "messages"

    async def read(self, gateway: Gateway, request: Request, body: Json) -> Call:
        """Check a request and put it into chat terms."""
        checked = check_messages(body)
        sent = engine_body(checked, body)
        fields = {name: value for name, value in body.items() if name not in ("messages", "tools")}
        conversation = Conversation(
            self.name,
            checked.model,
            sent["messages"],
            sent.get("tools"),
            sampling_of(sent),
            Original(body["messages"], fields),
            client_user(body),
        )
        return Call(
            conversation,
            CHAT_PATH,
            sent,
            bool(checked.stream),
            lambda asked: MessagesWording(asked, new_id("msg"), checked.model),
        )

    def refusal(self, error: AfterturnError) -> Response:
        """Anthropic's error object."""
        return messages_refusal(error)


class CountTokens:
    """`POST /v1/messages/count_tokens`: what the engine's own template and tokenizer make of a prompt."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request) -> Response:
        """The length of the prompt, in tokens."""
        try:
            return JsonResponse({"input_tokens": await self._count(request)})
        except AfterturnError as error:
            return messages_refusal(error)

    async def _count(self, request: Request) -> int:
        gateway = self._gateway
        caller = await gateway.caller(request, "inference")
        asked = check_prompt(await read_object(request, gateway.settings.max_body_bytes))
        weights = await gateway.weights()
        resolved = await gateway.read(lambda session: resolve(session, caller, asked.model, weights))
        body = {**prompt_fields(asked), "add_generation_prompt": True}
        async with gateway.upstream.answer("/tokenize", body, resolved.target, caller.key_id) as response:
            raw = await response.aread()
        try:
            return int(orjson.loads(raw)["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError("The engine answered what is not a count of tokens.") from error
