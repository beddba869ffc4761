"""Chat messages and tools as clients send them, made into what engines and their templates understand."""

from collections.abc import Sequence

import orjson

from .answers import Json

PART_JOINER = "\n"  # between the text parts of one message, everywhere: prompts, records and linking
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_SILENT_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})


def engine_messages(messages: list[Json]) -> list[Json]:
    """The messages as an engine understands them; the list itself when nothing has to change.

    - Parts that are all text become one text, joined by a newline; no parts are empty text. Thoughts among
      the parts become the message's reasoning, a refusal is what was said.
    - Null or missing content is empty text, so that no template writes the word None.
    - `developer` is what `system` was called before, `function` what `tool` was.
    - Reasoning is there under both of its names.
    - Arguments that came as an object become text; null and empty lists of calls are no calls.
    """
    changed = [_engine_message(message) for message in messages]
    return changed if any(new is not old for new, old in zip(changed, messages, strict=True)) else messages


def _engine_message(message: Json) -> Json:
    changes: Json = {}
    role, content = message["role"], message.get("content")
    if role == "developer":
        changes["role"] = "system"
    elif role == "function":
        changes["role"] = "tool"
    if not isinstance(content, str):
        changes["content"] = _content(content)
    if role == "assistant":
        changes |= _reasoning(message)
        if "tool_calls" in message:
            changes |= _calls(message)
    if not changes:
        return message
    new = {**message, **changes}
    if new.get("tool_calls", ()) is None:
        del new["tool_calls"]
    return new


def _content(content: list[Json] | None) -> str | list[Json]:
    if not content:
        return ""
    parts = [part for part in content if part["type"] not in _SILENT_PARTS]
    texts = [_spoken(part) for part in parts]
    if None not in texts:
        return PART_JOINER.join(text for text in texts if text is not None)
    return [
        part if text is None else {"type": "text", "text": text}
        for part, text in zip(parts, texts, strict=True)
    ]


def _spoken(part: Json) -> str | None:
    if part["type"] in _TEXT_PARTS:
        return part.get("text") or ""
    if part["type"] == "refusal":
        return part.get("refusal") or part.get("text") or ""
    return None


def _reasoning(message: Json) -> Json:
    thought = message.get("reasoning") or message.get("reasoning_content")
    if not thought and isinstance(message.get("content"), list):
        thought = PART_JOINER.join(
            part["thinking"] for part in message["content"] if isinstance(part.get("thinking"), str)
        )
    if not thought or thought == message.get("reasoning") == message.get("reasoning_content"):
        return {}
    return {"reasoning": thought, "reasoning_content": thought}


def _calls(message: Json) -> Json:
    calls = message["tool_calls"]
    if not calls:
        return {"tool_calls": None}
    if all(isinstance((call.get("function") or {}).get("arguments"), str) for call in calls):
        return {}
    return {"tool_calls": [_call(call) for call in calls]}


def _call(call: Json) -> Json:
    function = call.get("function")
    if not isinstance(function, dict) or isinstance(function.get("arguments"), str):
        return call
    arguments = function.get("arguments")
    text = "{}" if arguments is None else orjson.dumps(arguments).decode()
    return {**call, "function": {**function, "arguments": text}}


def functions_of(tools: Sequence[Json] | None) -> list[Json]:
    """The tools that a model can call here. Others (`web_search`, `namespace`, `custom`, ...) are run by a
    provider's own servers or read by its own models, and are left out."""
    return [
        tool
        for tool in tools or ()
        if tool.get("type", "function") == "function" and isinstance(tool.get("function"), dict)
    ]
