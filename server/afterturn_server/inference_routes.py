"""Every route that generates, by its protocol."""

from collections.abc import Mapping, Sequence

from starlette.routing import Route

from .chat import PATH as CHAT_PATH
from .chat import ChatProtocol
from .completions.protocol import PATH as COMPLETIONS_PATH
from .completions.protocol import CompletionsProtocol
from .gateway import Gateway
from .inference import Inference, InFlight
from .messages.protocol import COUNT_PATH, CountTokens, MessagesProtocol
from .messages.protocol import PATH as MESSAGES_PATH
from .protocol import Protocol
from .responses.protocol import ONE_PATH as RESPONSE_PATH
from .responses.protocol import PATH as RESPONSES_PATH
from .responses.protocol import ResponsesProtocol, StoredResponses


def inference_routes(gateway: Gateway) -> Sequence[Route]:
    """The routes, with one bound on the requests of all of them."""
    in_flight, stored = InFlight(), StoredResponses(gateway)
    protocols: Mapping[str, Protocol] = {
        CHAT_PATH: ChatProtocol(),
        COMPLETIONS_PATH: CompletionsProtocol(),
        RESPONSES_PATH: ResponsesProtocol(),
        MESSAGES_PATH: MessagesProtocol(),
    }
    return [
        *(
            Route(path, Inference(gateway, protocol, in_flight), methods=["POST"])
            for path, protocol in protocols.items()
        ),
        Route(COUNT_PATH, CountTokens(gateway).post, methods=["POST"]),
        Route(RESPONSE_PATH, stored.get, methods=["GET"]),
        Route(RESPONSE_PATH, stored.delete, methods=["DELETE"]),
    ]
