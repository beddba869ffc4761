"""Values that fit their type and still make no sense; each is refused as vLLM refuses it."""

from afterturn_engine.scripted.errors import BadRequest, Malformed
from afterturn_engine.scripted.wire import ChatRequest, Json, Sampling

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def check_sampling(asked: Sampling, max_tokens: int | None) -> None:
    """Raises BadRequest with the field named as `param`."""
    if asked.stream_options is not None and not asked.stream:
        raise Malformed("Stream options can only be defined when `stream=True`.", "stream_options")
    if asked.n < 1:
        raise BadRequest(f"n must be at least 1, got {asked.n}.")
    if asked.n > 1 and asked.temperature == 0:
        raise BadRequest(f"n must be 1 when using greedy sampling, got {asked.n}.")
    if asked.temperature is not None and asked.temperature < 0:
        raise BadRequest(f"temperature must be non-negative, got {asked.temperature}.", "temperature")
    if asked.top_p is not None and not 0 < asked.top_p <= 1:
        raise BadRequest(f"top_p must be in (0, 1], got {asked.top_p}.", "top_p")
    if max_tokens is not None and max_tokens < 1:
        raise BadRequest(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")


def check_messages(asked: ChatRequest) -> None:
    """Raises BadRequest for no messages, and for parts of one that are not text."""
    if not asked.messages:
        raise BadRequest("Cannot apply chat template to an empty conversation.")
    for place, message in enumerate(asked.messages):
        for number, part in enumerate(message.content if isinstance(message.content, list) else ()):
            kind = "text" if isinstance(part, str) else part.get("type")
            if kind not in _TEXT_PARTS:
                where = f"messages.{place}.content.{number}"
                raise BadRequest(f"this model reads text only, not {kind!r}", where)


def check_tool_choice(asked: ChatRequest) -> None:
    """Raises BadRequest for tools that are none, and for a choice of what is not on offer."""
    if asked.tools == []:
        raise Malformed(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field.", "tools"
        )
    if asked.tool_choice not in (None, "none") and not asked.tools:
        raise Malformed("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if not isinstance(asked.tool_choice, dict):
        return
    offered = [_function_name(tool) for tool in asked.tools or ()]
    if _function_name(asked.tool_choice) not in offered:
        raise BadRequest(
            "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
        )


def _function_name(tool: Json) -> str | None:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None
