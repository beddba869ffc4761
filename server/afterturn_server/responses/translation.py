"""From a responses request to a chat request: pure."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

import orjson

from afterturn_core.errors import RequestError

from ..answers import Json
from ..chat_request import RECORDED
from ..engine_chat import PART_JOINER
from .request import LEFT_OUT, Item, Part, ResponsesRequest

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
_SEAL = "afterturn.1."
_EFFORTS = frozenset({"low", "medium", "high"})  # those that engines know
# Fields that have no meaning for an engine; what is in neither list is handed on as it is.
_CLIENTS_OWN = frozenset(
    {
        "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier",
        "client_metadata", "max_tool_calls", "stream_options", "conversation", "prompt", "context_management",
        "n",
    }
)  # fmt: skip
_TRANSLATED = frozenset(ResponsesRequest.model_fields)


def chat_messages(asked: ResponsesRequest, items: Sequence[Item]) -> list[Json]:
    """The conversation as chat messages: the instructions, then the items.

    Reasoning, a text and calls that follow one another are one assistant message, as the engine said them.
    """
    messages: list[Json] = []
    if asked.instructions:
        messages.append({"role": "system", "content": asked.instructions})
    reply: Json = {}
    for item in items:
        spoken = item.type == "message" and item.role == "assistant"
        if item.type in ("reasoning", "function_call", "custom_tool_call") or spoken:
            if reply and (item.type == "reasoning" or (spoken and reply.keys() & {"content", "tool_calls"})):
                messages.append(_closed(reply))
                reply = {}
            _extend(reply, item)
        elif item.type != LEFT_OUT:
            if reply:
                messages.append(_closed(reply))
                reply = {}
            messages.append(_other(item))
    return [*messages, _closed(reply)] if reply else messages


def _extend(reply: Json, item: Item) -> None:
    if item.type == "reasoning":
        reply["reasoning"] = _thought(item)
    elif item.type == "message":
        reply["content"] = _content(item.content)
    else:
        arguments = item.arguments or "{}"
        if item.type == "custom_tool_call":
            arguments = orjson.dumps({"input": item.input or ""}).decode()
        function = {"name": item.name, "arguments": arguments}
        reply.setdefault("tool_calls", []).append(
            {"id": item.call_id, "type": "function", "function": function}
        )


def _closed(reply: Json) -> Json:
    message = {"role": "assistant", "content": "", **reply}
    thought = message.pop("reasoning", "")
    if thought:
        message["reasoning"] = message["reasoning_content"] = thought
    return message


def _other(item: Item) -> Json:
    if item.type == "message":
        role = "system" if item.role == "developer" else item.role
        return {"role": role, "content": _content(item.content)}
    return {"role": "tool", "tool_call_id": item.call_id, "content": _output(item.output)}


def _content(content: str | Sequence[Part] | None) -> str | list[Json]:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [_part(part) for part in content]
    if all(part["type"] == "text" for part in parts):
        return PART_JOINER.join(part["text"] for part in parts)
    return parts


def _part(part: Part) -> Json:
    if part.type == "input_image":
        return {"type": "image_url", "image_url": {"url": part.image_url}}
    if part.type == "input_audio":
        return part.model_dump(exclude_none=True)
    return {"type": "text", "text": part.text or part.refusal or ""}


def _output(output: str | Sequence[Part] | None) -> str:
    if output is None or isinstance(output, str):
        return output or ""
    return PART_JOINER.join(part.text or f"[{part.type.removeprefix('input_')}]" for part in output)


def _thought(item: Item) -> str:
    parts = item.content if isinstance(item.content, list) else ()
    text = _joined(parts) or _joined(item.summary or ())
    sealed = item.encrypted_content or ""
    if not text and sealed.startswith(_SEAL):
        try:
            return b64decode(sealed.removeprefix(_SEAL), validate=True).decode()
        except ValueError:
            return ""  # not what was sealed here
    return text


def _joined(parts: Iterable[Part]) -> str:
    return PART_JOINER.join(part.text for part in parts if part.text)


def sealed(thought: str) -> str:
    """Reasoning for clients that keep nothing but `encrypted_content`: theirs anyway, so only wrapped."""
    return _SEAL + b64encode(thought.encode()).decode()


def chat_tools(tools: Sequence[Json] | None) -> list[Json]:
    """The functions that a model can call here; other kinds (namespaces, searches, custom) are left out."""
    names = ("name", "description", "parameters", "strict")
    return [
        {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}
        for tool in tools or ()
        if tool.get("type") == "function" and isinstance(tool.get("name"), str)
    ]


def flat_tools(tools: Sequence[Json]) -> list[Json]:
    """Chat tools as this protocol lists them."""
    return [{"type": "function", **tool["function"]} for tool in tools]


def engine_body(asked: ResponsesRequest, body: Json, messages: list[Json]) -> Json:
    """What the engine is asked.

    Raises:
        RequestError: a field that cannot take effect.
    """
    sent: Json = {
        name: value for name, value in body.items() if name not in _TRANSLATED and name not in _CLIENTS_OWN
    }
    sent |= {"messages": messages, **RECORDED}
    for name in ("temperature", "top_p"):
        if getattr(asked, name) is not None:
            sent[name] = getattr(asked, name)
    if asked.max_output_tokens is not None:
        sent["max_tokens"] = asked.max_output_tokens
    if asked.top_logprobs:
        sent["top_logprobs"] = asked.top_logprobs
    if asked.stream:
        sent |= {"stream": True, "stream_options": {"include_usage": True}}
    if asked.reasoning is not None:
        sent |= _reasoning(asked.reasoning.effort)
    wanted = _response_format(asked)
    if wanted is not None:
        sent["response_format"] = wanted
    return sent | _tools(asked)


def _tools(asked: ResponsesRequest) -> Json:
    tools = chat_tools(asked.tools)
    choice = asked.tool_choice
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice.get("name") not in [tool["function"].get("name") for tool in tools]:
            raise RequestError(
                f"tool_choice names {choice.get('name')!r}, which is not among the tools.",
                param="tool_choice",
            )
        choice = {"type": "function", "function": {"name": choice["name"]}}
    elif isinstance(choice, dict) or choice not in (None, "none", "auto", "required"):
        raise RequestError("tool_choice: 'none', 'auto', 'required' or a named function", param="tool_choice")
    if not tools:
        if choice == "required":
            raise RequestError(
                "'tool_choice' is only allowed when 'tools' has functions.", param="tool_choice"
            )
        return {}
    sent: Json = {"tools": tools}
    if choice is not None:
        sent["tool_choice"] = choice
    if asked.parallel_tool_calls is not None:
        sent["parallel_tool_calls"] = asked.parallel_tool_calls
    return sent


def _reasoning(effort: str | None) -> Json:
    if effort == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {"reasoning_effort": effort} if effort in _EFFORTS else {}


def _response_format(asked: ResponsesRequest) -> Json | None:
    wanted = None if asked.text is None else asked.text.format
    if wanted is None or wanted.get("type") == "text":
        return None
    if wanted.get("type") == "json_object":
        return {"type": "json_object"}
    if wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), dict):
        raise RequestError("text.format: text, json_object or a json_schema", param="text.format")
    names = ("name", "description", "schema", "strict")
    schema = {name: wanted[name] for name in names if wanted.get(name) is not None}
    return {"type": "json_schema", "json_schema": {"name": "output", **schema}}
