"""What of a completion request is checked before an engine sees it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from afterturn_core.errors import RequestError

from ..answers import Json
from ..body import parse
from ..chat_request import Number, StreamOptions

Prompt = str | list[int]
TokenId = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class CompletionRequest(BaseModel):
    """The fields that OpenAI documents and that a wrong value of would reach the engine."""

    model_config = ConfigDict(extra="allow")

    model: StrictStr = Field(min_length=1, max_length=256)
    prompt: StrictStr | list[StrictStr] | list[TokenId] | list[list[TokenId]]
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: StrictInt | None = Field(None, ge=1, le=128)
    best_of: StrictInt | None = None
    echo: StrictBool | None = None
    suffix: StrictStr | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    presence_penalty: Number | None = Field(None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(None, ge=-2, le=2)
    logprobs: StrictInt | None = Field(None, ge=0, le=20)
    max_tokens: StrictInt | None = Field(None, ge=0)
    stop: StrictStr | list[StrictStr] | None = None
    seed: StrictInt | None = None
    return_token_ids: StrictBool | None = None


def check_completion(body: Json) -> CompletionRequest:
    """The request as vLLM would accept it.

    Raises:
        RequestError: with `param` the field.
    """
    asked = parse(CompletionRequest, body)
    if asked.stream_options is not None and not asked.stream:
        raise RequestError(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if asked.suffix:
        raise RequestError("suffix: not supported by the engines behind this server", param="suffix")
    if asked.best_of is not None and asked.best_of != (asked.n or 1):
        raise RequestError("best_of: not supported beyond n", param="best_of")
    if asked.max_tokens == 0 and not asked.echo:
        raise RequestError("max_tokens: at least 1 without echo", param="max_tokens")
    if asked.echo and not all(isinstance(prompt, str) for prompt in prompts_of(asked)):
        raise RequestError("echo: not supported for prompts of token ids", param="echo")
    return asked


def prompts_of(asked: CompletionRequest) -> list[Prompt]:
    """Each prompt of a request.

    Raises:
        RequestError: there is none.
    """
    given = asked.prompt
    if isinstance(given, str):
        return [given]
    prompts: list[Prompt] = []
    ids: list[int] = []
    for item in given:
        if isinstance(item, int):
            ids.append(item)
        else:
            prompts.append(item)
    prompts = [ids] if ids else prompts
    if not prompts or not all(prompts):
        raise RequestError("prompt: must not be empty", param="prompt")
    return prompts


def engine_body(body: Json, asked: CompletionRequest) -> Json:
    """What the engine is asked: always token ids, and the log-probabilities of what is sampled.

    The gateway puts an echoed prompt in front itself, since no engine does that beside token ids; only where
    the prompt's own log-probabilities are wanted too does the engine hear of the echo.
    """
    sent = {**body, "return_token_ids": True, "logprobs": asked.logprobs or 0}
    sent.pop("best_of", None)
    if asked.logprobs is None and asked.max_tokens != 0:
        sent.pop("echo", None)
    return sent


def spoken(prompt: Prompt) -> list[Json]:
    """A prompt as the one message of a conversation."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": "user", "content": [{"type": "token_ids", "token_ids": prompt}]}]
