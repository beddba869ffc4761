"""The routes of the responses protocol."""

from pydantic import TypeAdapter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import AfterturnError, NotFound, RequestError
from afterturn_core.ids import new_id

from ..answers import Json, JsonResponse, error_response
from ..caller import Caller, find_caller, presented_key
from ..chat import PATH as CHAT_PATH
from ..chat_request import sampling_of
from ..conversation import Conversation
from ..erasing import erase, nothing
from ..gateway import Gateway
from ..protocol import Call, Protocol
from ..recording import Asked, Original
from ..turn_options import client_user
from .body import Head
from .output import Output
from .request import Item, ResponsesRequest, check_responses, known_items
from .stored import find_response, is_reference, items_before, merged, resolved, response_body
from .translation import ENCRYPTED, LOGPROBS, chat_messages, engine_body
from .wording import ResponsesWording

PATH = "/v1/responses"
ONE_PATH = "/v1/responses/{response_id}"
_ITEMS = TypeAdapter(list[Item])
_NAMES = (("messages", "input"), ("max_tokens", "max_output_tokens"), ("response_format", "text.format"))


class ResponsesProtocol(Protocol):
    """OpenAI's responses."""

    name = "responses"

    async def read(self, gateway: Gateway, request: Request, body: Json) -> Call:
        """Check a request and put it into chat terms, with what it goes on from in front."""
        checked = check_responses(body)
        items, understood = await _items(gateway, request, checked, body.get("input"))
        messages = chat_messages(checked, understood)
        sent = engine_body(checked, body, messages)
        fields = {name: value for name, value in body.items() if name not in ("input", "tools")}
        conversation = Conversation(
            self.name,
            checked.model,
            messages,
            sent.get("tools"),
            sampling_of(sent),
            Original(items, fields),
            client_user(body),
            checked.previous_response_id,
        )

        def wording(asked: Asked) -> ResponsesWording:
            head = Head(new_id("resp"), int(asked.created_at.timestamp()), body)
            wanted = checked.include or ()
            return ResponsesWording(asked, head, Output(head.id, ENCRYPTED in wanted, LOGPROBS in wanted))

        return Call(conversation, CHAT_PATH, sent, bool(checked.stream), wording)

    def refusal(self, error: AfterturnError) -> Response:
        """OpenAI's error object; what the engine says about the translation is told of the original."""
        error.param = _original_name(error.param)
        return error_response(error)


class StoredResponses:
    """`/v1/responses/{id}`: what was answered before."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, request: Request) -> Response:
        """The response as it was given."""
        caller = await self._gateway.caller(request, "inference")
        response_id = request.path_params["response_id"]
        return JsonResponse(
            await self._gateway.read(
                lambda session: response_body(session, find_response(session, caller, response_id))
            )
        )

    async def delete(self, request: Request) -> Response:
        """Erase the turn behind a response, and all that goes on from it."""
        caller = await self._gateway.caller(request, "inference")
        response_id = request.path_params["response_id"]
        await erase(self._gateway, lambda session: [find_response(session, caller, response_id).id], nothing)
        return JsonResponse({"id": response_id, "object": "response", "deleted": True})


async def _items(
    gateway: Gateway, request: Request, checked: ResponsesRequest, given: str | list[Json] | None
) -> tuple[list[Json], list[Item]]:
    """The whole input, as it was sent and as it is understood: what it goes on from, then its own items, with
    those it only refers to."""
    if checked.previous_response_id is None and not any(map(is_reference, _listed(given))):
        items = merged([], given)
        return items, checked.input if isinstance(checked.input, list) else _understood(items)
    key = presented_key(request.headers)

    def look(session: Session) -> list[Json]:
        caller = find_caller(session, key, "inference")
        before: list[Json] = []
        if checked.previous_response_id is not None:
            before = _before(session, caller, checked.previous_response_id)
        return merged(before, given if isinstance(given, str) else resolved(session, caller, _listed(given)))

    items = await gateway.read(look)
    return items, _understood(items)


def _understood(items: list[Json]) -> list[Item]:
    return _ITEMS.validate_python(known_items(items))


def _before(session: Session, caller: Caller, response_id: str) -> list[Json]:
    try:
        return items_before(session, find_response(session, caller, response_id))
    except NotFound:
        raise RequestError(
            f"Previous response with id '{response_id[:80]}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        ) from None


def _listed(given: str | list[Json] | None) -> list[Json]:
    return given if isinstance(given, list) else []


def _original_name(param: str | None) -> str | None:
    if param is None:
        return None
    for translated, original in _NAMES:
        if param.startswith(translated):
            return original
    return param
