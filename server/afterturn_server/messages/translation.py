"""From a messages request to a chat request: pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from afterturn_core.errors import RequestError

from ..answers import Json
from ..chat_request import RECORDED
from ..engine_chat import PART_JOINER
from .request import Block, Message, MessagesRequest, PromptRequest, Tool, ToolChoice

# Fields that have no meaning for an engine; what is in neither list is handed on as it is.
_CLIENTS_OWN = frozenset(
    {
        "metadata", "service_tier", "container", "context_management", "mcp_servers", "betas",
        "inference_geo",
        "speed", "cache_control", "n",
    }
)  # fmt: skip
_TRANSLATED = frozenset(MessagesRequest.model_fields)


def chat_messages(asked: PromptRequest) -> list[Json]:
    """The conversation as chat messages.

    System blocks become one system message in front, texts joined by a newline; system messages further down
    stay where they are. Of a user message the tool results come first, each a `tool` message, then what was
    said. Thoughts become the assistant message's reasoning.
    """
    messages: list[Json] = []
    if asked.system:
        messages.append({"role": "system", "content": _text(asked.system)})
    for place, message in enumerate(asked.messages):
        messages += _translated(message, f"messages[{place}]")
    return messages


def chat_tools(tools: Sequence[Tool] | None) -> list[Json]:
    """The tools that a model can call here; a provider's own (web search, computer use, ...) are left out."""
    return [_tool(tool) for tool in tools or () if tool.type in (None, "custom") and tool.name]


def engine_body(asked: MessagesRequest, body: Json) -> Json:
    """What the engine is asked.

    Raises:
        RequestError: a field that cannot take effect.
    """
    sent: Json = {
        name: value for name, value in body.items() if name not in _TRANSLATED and name not in _CLIENTS_OWN
    }
    sent |= prompt_fields(asked) | {"max_tokens": asked.max_tokens, **RECORDED}
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(asked, name)
        if value is not None and not (name == "top_k" and value == 0):
            sent[name] = value
    if asked.stop_sequences:
        sent["stop"] = asked.stop_sequences
    if asked.stream:
        sent |= {"stream": True, "stream_options": {"include_usage": True}}
    response_format = _response_format(asked)
    if response_format is not None:
        sent["response_format"] = response_format
    if "tools" in sent and asked.tool_choice is not None:
        sent |= _tool_choice(asked.tool_choice, sent["tools"])
    return sent


def prompt_fields(asked: PromptRequest) -> Json:
    """The part of a chat request that decides its prompt."""
    fields: Json = {"messages": chat_messages(asked)}
    tools = chat_tools(asked.tools)
    if tools:
        fields["tools"] = tools
    if asked.thinking is not None and asked.thinking.type != "adaptive":
        fields["chat_template_kwargs"] = {"enable_thinking": asked.thinking.type == "enabled"}
    return fields


def _translated(message: Message, path: str) -> Iterator[Json]:
    content = message.content
    if isinstance(content, str):
        yield {"role": message.role, "content": content}
    elif message.role == "assistant":
        yield _assistant(content, path)
    elif message.role == "system":
        yield {"role": "system", "content": _text(content)}
    else:
        yield from _user(content, path)


def _user(blocks: Sequence[Block], path: str) -> Iterator[Json]:
    said: list[Json] = []
    results = 0
    for place, block in enumerate(blocks):
        if block.type == "tool_result":
            if not block.tool_use_id:
                raise RequestError("tool_result: a tool_use_id", param=f"{path}.content[{place}].tool_use_id")
            results += 1
            text = _result(block, f"{path}.content[{place}]")
            yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}
        else:
            said += _part(block, f"{path}.content[{place}]")
    if said or not results:
        yield {"role": "user", "content": _bare(said)}


def _assistant(blocks: Sequence[Block], path: str) -> Json:
    said: list[Json] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for place, block in enumerate(blocks):
        if block.type == "thinking":
            thoughts.append(block.thinking or "")
        elif block.type == "tool_use":
            if not block.id or not block.name:
                raise RequestError("tool_use: an id and a name", param=f"{path}.content[{place}].id")
            function = {"name": block.name, "arguments": orjson.dumps(block.input or {}).decode()}
            calls.append({"id": block.id, "type": "function", "function": function})
        else:
            said += _part(block, f"{path}.content[{place}]")
    message: Json = {"role": "assistant", "content": _bare(said)}
    if any(thoughts):
        message["reasoning"] = message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _part(block: Block, path: str) -> list[Json]:
    """A block as parts of chat content; none for what only a provider's servers understand."""
    if block.type == "text":
        return [{"type": "text", "text": block.text or ""}]
    if block.type == "image":
        return [{"type": "image_url", "image_url": {"url": _image(block.source or {}, path)}}]
    if block.type == "document":
        source = block.source or {}
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return [{"type": "text", "text": source["data"]}]
        raise RequestError("document: only plain text can be read here", param=path)
    if block.type == "search_result":
        return [{"type": "text", "text": _blocks_text(block, path)}]
    return []


def _image(source: Json, path: str) -> str:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return str(source["url"])
    raise RequestError("image: a source of type base64 or url", param=f"{path}.source")


def _bare(parts: list[Json]) -> str | list[Json]:
    """Text alone is a text."""
    if all(part["type"] == "text" for part in parts):
        return PART_JOINER.join(part["text"] for part in parts)
    return parts


def _result(block: Block, path: str) -> str:
    text = _blocks_text(block, path)
    if block.is_error and not text.lower().lstrip("<").startswith(("error", "tool_use_error")):
        return f"Error: {text}" if text else "Error"
    return text


def _blocks_text(block: Block, path: str) -> str:
    """The text of what a block holds: a text, or blocks of any kind."""
    given = block.content
    if given is None or isinstance(given, str):
        return given or ""
    if isinstance(given, list) and all(isinstance(inner, dict) for inner in given):
        return _text(given)
    raise RequestError(f"{block.type}: a text or a list of blocks", param=f"{path}.content")


def _text(content: Any) -> str:
    """The text of blocks, whatever else is between them."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content or ():
        given = block if isinstance(block, dict) else block.model_dump()
        if isinstance(given.get("text"), str):
            texts.append(given["text"])
        elif given.get("type") == "image":
            texts.append("[image]")
    return PART_JOINER.join(texts)


def _tool(tool: Tool) -> Json:
    function: Json = {
        "name": tool.name,
        "parameters": tool.input_schema or {"type": "object", "properties": {}},
    }
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice, tools: Sequence[Json]) -> Json:
    sent: Json = {}
    if choice.type == "tool":
        if choice.name not in [tool["function"]["name"] for tool in tools]:
            raise RequestError(
                f"tool_choice names {choice.name!r}, which is not among the tools.", param="tool_choice.name"
            )
        sent["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    else:
        sent["tool_choice"] = {"auto": "auto", "any": "required", "none": "none"}[choice.type]
    if choice.disable_parallel_tool_use:
        sent["parallel_tool_calls"] = False
    return sent


def _response_format(asked: MessagesRequest) -> Json | None:
    """Structured output, under the name it has now or the one it had in beta."""
    wanted = (asked.output_config or {}).get("format") or asked.output_format
    if not wanted:
        return None
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    if not isinstance(schema, dict) or wanted.get("type") != "json_schema":
        raise RequestError("output_config.format: a json_schema", param="output_config.format")
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}}
