"""The route: what an engine has of its own, passed through."""

from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import AfterturnError

from ..answers import Json, error_response
from ..chat_request import sampling_of
from ..conversation import Conversation
from ..gateway import Gateway
from ..protocol import Call, Protocol
from ..turn_options import client_user
from .request import check_completion, engine_body, prompts_of, spoken
from .wording import CompletionWording, Shown

PATH = "/v1/completions"


class CompletionsProtocol(Protocol):
    """OpenAI's text completions, with vLLM's additions."""

    name = "completions"

    async def read(self, gateway: Gateway, request: Request, body: Json) -> Call:
        """Check a request. Each of several prompts is a conversation of its own; the first is linked."""
        checked = check_completion(body)
        prompts = prompts_of(checked)
        shown = Shown(
            model=checked.model,
            prompts=tuple(prompts),
            choices=checked.n or 1,
            logprobs=checked.logprobs is not None,
            token_ids=bool(checked.return_token_ids),
            usage=checked.stream_options is not None and bool(checked.stream_options.include_usage),
            echo=bool(checked.echo),
        )
        return Call(
            Conversation(
                self.name,
                checked.model,
                spoken(prompts[0]),
                None,
                sampling_of(body),
                client_user=client_user(body),
            ),
            PATH,
            engine_body(body, checked),
            bool(checked.stream),
            lambda asked: CompletionWording(asked, shown),
        )

    def refusal(self, error: AfterturnError) -> Response:
        """OpenAI's error object; a conversation that is too long is a prompt here."""
        if error.param == "messages":
            error.param = "prompt"
        return error_response(error)
