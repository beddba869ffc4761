"""What a messages request may hold."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from ..answers import Json
from ..body import parse
from ..chat_request import Number


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Block(_Open):
    """One block of a message's content. Those that only a provider's own servers fill are left out later."""

    type: Literal[
        "text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use",
        "tool_result",
        "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
        "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "mcp_tool_use",
        "mcp_tool_result", "container_upload", "tool_reference", "tool_search_tool_result", "compaction",
    ]  # fmt: skip
    text: StrictStr | None = None
    id: StrictStr | None = None
    name: StrictStr | None = None
    input: dict[str, Any] | None = None
    tool_use_id: StrictStr | None = None
    content: Any = None
    is_error: StrictBool | None = None
    thinking: StrictStr | None = None
    source: dict[str, Any] | None = None


class Message(_Open):
    """One message; newer clients put system texts between the others."""

    role: Literal["user", "assistant", "system"]
    content: StrictStr | list[Block]


class ToolChoice(_Open):
    """Whether a tool is to be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: StrictStr | None = None
    disable_parallel_tool_use: StrictBool | None = None


class Tool(_Open):
    """A tool; one with a `type` other than `custom` is a provider's own."""

    type: StrictStr | None = None
    name: StrictStr | None = None
    description: StrictStr | None = None
    input_schema: dict[str, Any] | None = None
    strict: StrictBool | None = None


class Thinking(_Open):
    """Whether the model is to think first."""

    type: Literal["enabled", "disabled", "adaptive"]


class PromptRequest(_Open):
    """What decides the prompt; all that counting its tokens takes."""

    model: StrictStr = Field(min_length=1, max_length=256)
    messages: list[Message] = Field(min_length=1)
    system: StrictStr | list[Block] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None


class MessagesRequest(PromptRequest):
    """The fields that Anthropic documents and that mean something to an engine."""

    max_tokens: StrictInt = Field(ge=1)
    stream: StrictBool | None = None
    stop_sequences: list[StrictStr] | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    top_k: StrictInt | None = Field(None, ge=0)
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


def check_messages(body: Json) -> MessagesRequest:
    """The request as Anthropic would accept it.

    Raises:
        RequestError: with `param` the field's path.
    """
    return parse(MessagesRequest, body)


def check_prompt(body: Json) -> PromptRequest:
    """The request of a token count. Raises as `check_messages` does."""
    return parse(PromptRequest, body)
