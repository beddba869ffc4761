"""What a responses request may hold."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from afterturn_core.errors import RequestError

from ..answers import Json
from ..body import parse
from ..chat_request import Number

# Items of other kinds are a provider's own (searches, file reads, ...) and are left out of the conversation.
ITEM_TYPES = frozenset(
    {
        "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "reasoning",
    }
)  # fmt: skip
LEFT_OUT = "left_out"


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Part(_Open):
    """One part of an item's content."""

    type: Literal[
        "input_text", "output_text", "text", "refusal", "input_image", "input_file", "input_audio",
        "reasoning_text", "summary_text",
    ]  # fmt: skip
    text: StrictStr | None = None
    refusal: StrictStr | None = None
    image_url: StrictStr | None = None


class Item(_Open):
    """One item of the input; a message needs no `type`."""

    type: StrictStr = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: StrictStr | list[Part] | None = None
    call_id: StrictStr | None = None
    name: StrictStr | None = None
    arguments: StrictStr | None = None
    input: StrictStr | None = None
    output: StrictStr | list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: StrictStr | None = None


class Reasoning(_Open):
    """How much the model is to think."""

    effort: StrictStr | None = None
    summary: StrictStr | None = None


class TextOptions(_Open):
    """What form the text is to have."""

    format: dict[str, Any] | None = None


class ResponsesRequest(_Open):
    """The fields that OpenAI documents and that mean something to an engine."""

    model: StrictStr = Field(min_length=1, max_length=256)
    input: StrictStr | list[Item] | None = None
    instructions: StrictStr | None = None
    previous_response_id: StrictStr | None = Field(None, max_length=256)
    stream: StrictBool | None = None
    store: StrictBool | None = None
    background: StrictBool | None = None
    max_output_tokens: StrictInt | None = Field(None, ge=1)
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    top_logprobs: StrictInt | None = Field(None, ge=0, le=20)
    include: list[StrictStr] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, Any] | None = None


def check_responses(body: Json) -> ResponsesRequest:
    """The request as OpenAI would accept it.

    Raises:
        RequestError: with `param` the field's path, e.g. `input[0].role`.
    """
    asked = parse(ResponsesRequest, {**body, "input": known_items(body.get("input"))})
    if asked.background:
        raise RequestError("background: replies are given while the client waits", param="background")
    for name in ("conversation", "prompt"):
        if body.get(name) is not None:
            raise RequestError(f"{name}: not kept here; send the input itself", param=name)
    if asked.input is None and asked.previous_response_id is None:
        raise RequestError("input: a text or a list of items", param="input")
    for place, item in enumerate(asked.input if isinstance(asked.input, list) else ()):
        _check(item, f"input[{place}]")
    return asked


def known_items(given: object) -> object:
    """An input, with items of unknown kinds emptied: they keep their place, so that paths stay true."""
    if not isinstance(given, list):
        return given
    return [
        {"type": LEFT_OUT}
        if isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] not in ITEM_TYPES
        else item
        for item in given
    ]


def _check(item: Item, path: str) -> None:
    needed = {
        "message": ("role",),
        "function_call": ("call_id", "name"),
        "custom_tool_call": ("call_id", "name"),
        "function_call_output": ("call_id",),
        "custom_tool_call_output": ("call_id",),
    }
    for name in needed.get(item.type, ()):
        if getattr(item, name) is None:
            raise RequestError(f"{path}.{name}: required", param=f"{path}.{name}")
    for place, part in enumerate(item.content if isinstance(item.content, list) else ()):
        if part.type == "input_file" or (part.type == "input_image" and part.image_url is None):
            raise RequestError(
                f"{part.type}: only what the request itself carries can be read here",
                param=f"{path}.content[{place}]",
            )
