"""What of a chat request is checked before an engine sees it; everything else passes untouched."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from afterturn_core.errors import RequestError

from .answers import Json
from .body import parse
from .engine_chat import engine_messages, functions_of

Number = Annotated[float, Field(strict=True)]
SAMPLING_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "stop", "seed", "n",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "tool_choice",
    "parallel_tool_calls", "response_format",
)  # fmt: skip


RECORDED: Json = {"return_token_ids": True, "logprobs": True}


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Part(_Open):
    """One part of a message's content."""

    type: Literal[
        "text", "input_text", "output_text", "refusal", "image_url", "input_audio", "video_url", "audio_url",
        "file", "thinking",
    ]  # fmt: skip
    text: StrictStr | None = None
    refusal: StrictStr | None = None


class Called(_Open):
    """One call of an earlier reply."""

    function: dict[str, Any] | None = None


class Message(_Open):
    """One message; clients add fields of their own."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: StrictStr | list[Part] | None = None
    tool_calls: list[Called] | None = None
    tool_call_id: StrictStr | None = None


class StreamOptions(_Open):
    """Options of a streamed reply."""

    include_usage: StrictBool | None = None


class ChatRequest(_Open):
    """The fields that OpenAI documents and that a wrong value of would reach the engine."""

    model: StrictStr = Field(min_length=1, max_length=256)
    messages: list[Message] = Field(min_length=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: StrictInt | None = Field(None, ge=1, le=128)
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    presence_penalty: Number | None = Field(None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(None, ge=-2, le=2)
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = Field(None, ge=0, le=20)
    max_tokens: StrictInt | None = Field(None, ge=1)
    max_completion_tokens: StrictInt | None = Field(None, ge=1)
    stop: StrictStr | list[StrictStr] | None = None
    seed: StrictInt | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    return_token_ids: StrictBool | None = None


def check_chat(body: Json) -> ChatRequest:
    """The request as OpenAI would accept it.

    Raises:
        RequestError: with `param` the field's path, e.g. `messages[0].role`.
    """
    asked = parse(ChatRequest, body)
    if asked.stream_options is not None and not asked.stream:
        raise RequestError(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if asked.top_logprobs and not asked.logprobs:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    _check_tool_choice(asked)
    return asked


def _check_tool_choice(asked: ChatRequest) -> None:
    choice = asked.tool_choice
    if choice is None or choice in ("none", "auto"):
        return
    if isinstance(choice, str):
        if choice != "required":
            raise RequestError(
                "tool_choice: 'none', 'auto', 'required' or a named function", param="tool_choice"
            )
        if not functions_of(asked.tools):
            raise RequestError("'tool_choice' is only allowed when 'tools' are given.", param="tool_choice")
        return
    named = choice.get("function")
    name = named.get("name") if isinstance(named, dict) else choice.get("name")
    declared = [tool["function"].get("name") for tool in functions_of(asked.tools)]
    if choice.get("type") != "function":
        raise RequestError("tool_choice: 'none', 'auto', 'required' or a named function", param="tool_choice")
    if name not in declared:
        raise RequestError(f"tool_choice names {name!r}, which is not among the tools.", param="tool_choice")


def engine_body(body: Json) -> Json:
    """What the engine is asked: the request with its messages and tools as engines understand them, and
    always with token ids and log-probabilities."""
    tools = functions_of(body.get("tools"))
    asked = {**body, "messages": engine_messages(body["messages"]), **RECORDED}
    if tools:
        asked["tools"] = tools
    else:
        for name in ("tools", "tool_choice", "parallel_tool_calls"):
            asked.pop(name, None)
    return asked


def sampling_of(body: Json) -> Json:
    """The sampling parameters as the client sent them."""
    return {name: body[name] for name in SAMPLING_FIELDS if body.get(name) is not None}
