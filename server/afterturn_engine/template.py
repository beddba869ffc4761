"""From chat messages to prompt ids, through the model's own chat template.

Parts of a message's content are joined with a newline (as in vLLM), null and missing content are empty text,
the role `developer` is `system`. Where the template knows no tools, they are described in a system block and
calls and results are written as text in the same `<tool_call>` form that replies are read in.
"""

import contextlib
import inspect
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2
from pydantic import JsonValue
from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from afterturn_engine.errors import InvalidRequest
from afterturn_engine.reasoning import CLOSE_THOUGHT, OPEN_THOUGHT
from afterturn_engine.requests import ChatPrompt, ContentPart, Message, Object, Tool, ToolCall
from afterturn_engine.tool_calls import CLOSE, OPEN

PART_JOINER = "\n"
MARKS = frozenset({OPEN, CLOSE, OPEN_THOUGHT, CLOSE_THOUGHT})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
# Arguments of apply_chat_template itself, which a request has no business with.
_RESERVED = frozenset(inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters)
_TOOLS_BLOCK = (Path(__file__).parent / "tools.txt").read_text("utf-8")


class Template:
    """Renders chats for one tokenizer."""

    def __init__(self, tokenizer: TokenizersBackend) -> None:
        self._tokenizer = tokenizer
        # Templates come in several (for tools, say) or as one source that asks for `tools`, or not.
        source = tokenizer.chat_template
        self._knows_tools = isinstance(source, dict) or re.search(r"\btools\b", source or "") is not None
        sources = source.values() if isinstance(source, dict) else [source or ""]
        self.thinks = any(OPEN_THOUGHT in text for text in sources) or (
            tokenizer.backend_tokenizer.token_to_id(OPEN_THOUGHT) is not None
        )
        # Where a mark is a control token, text without control tokens would lose it.
        added = tokenizer.added_tokens_decoder.values()
        self.control_marks = frozenset(t.content for t in added if t.special and t.content in MARKS)

    def render(self, chat: ChatPrompt) -> str:
        """The prompt's text. Raises InvalidRequest, naming the message."""
        if not chat.messages:
            raise InvalidRequest("Cannot apply chat template to an empty conversation.")
        if chat.chat_template is not None:
            raise InvalidRequest("a request may not bring its own chat template", param="chat_template")
        both = chat.continue_final_message and chat.add_generation_prompt
        if both and "add_generation_prompt" in chat.model_fields_set:
            raise InvalidRequest(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
            )
        entries = [_entry(message, place) for place, message in enumerate(chat.messages)]
        tools = [_described(tool) for tool in chat.tools or ()]
        if not self._knows_tools:
            entries = [*_with_tools(entries, chat.tools or ())]
            tools = []
        variables = _variables(chat)
        if _RESERVED & variables.keys():
            names = ", ".join(sorted(_RESERVED & variables.keys()))
            raise InvalidRequest(f"not a variable of a chat template: {names}", param="chat_template_kwargs")
        apply: Callable[..., object] = self._tokenizer.apply_chat_template
        try:
            text = apply(
                entries,
                tools=tools or None,
                tokenize=False,
                add_generation_prompt=chat.add_generation_prompt and not chat.continue_final_message,
                continue_final_message=chat.continue_final_message,
                **variables,
            )
        except (jinja2.TemplateError, ValueError, TypeError) as error:
            raise InvalidRequest(f"the chat template refused the messages: {error}") from error
        return str(text)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        ids: list[int] = self._tokenizer.backend_tokenizer.encode(
            text, add_special_tokens=add_special_tokens
        ).ids
        return ids


def _variables(chat: ChatPrompt) -> Object:
    """What the request sets in the template; an effort switches thinking on or off, as in vLLM."""
    variables: Object = {}
    if chat.reasoning_effort is not None:
        variables["reasoning_effort"] = chat.reasoning_effort
        variables["enable_thinking"] = chat.reasoning_effort != "none"
    return {**variables, **(chat.chat_template_kwargs or {})}


def _entry(message: Message, place: int) -> Object:
    entry: Object = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _text(message.content, f"messages.{place}.content"),
    }
    if message.tool_calls:
        entry["tool_calls"] = [_call(call) for call in message.tool_calls]
    for key, value in (("tool_call_id", message.tool_call_id), ("name", message.name)):
        if value is not None:
            entry[key] = value
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        # Templates call it by either name.
        entry["reasoning_content"] = entry["reasoning"] = reasoning
    return entry


def _described(tool: Tool) -> Object:
    """The tool as the model is to know it: `strict` binds the engine and tells the model nothing."""
    described: Object = tool.model_dump(exclude_none=True, exclude={"function": {"strict"}})
    return described


def _text(content: str | Sequence[ContentPart | str] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for place, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
        elif part.type in _TEXT_PARTS and part.text is not None:
            texts.append(part.text)
        else:
            raise InvalidRequest(f"this model reads text only, not {part.type!r}", param=f"{where}.{place}")
    return PART_JOINER.join(texts)


def _call(call: ToolCall) -> Object:
    """Templates want arguments as an object; what is not JSON stays as it came."""
    arguments: JsonValue = call.function.arguments or {}
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            arguments = json.loads(arguments)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": arguments},
    }


def _with_tools(entries: Sequence[Object], tools: Sequence[Tool]) -> list[Object]:
    """Messages for a template that knows no tools."""
    plain: list[Object] = []
    in_results = False
    for entry in entries:
        if entry["role"] == "tool":
            result = f"<tool_response>\n{entry['content']}\n</tool_response>"
            if in_results:
                plain[-1] = {"role": "user", "content": f"{plain[-1]['content']}\n{result}"}
            else:
                plain.append({"role": "user", "content": result})
            in_results = True
            continue
        in_results = False
        calls = entry.get("tool_calls")
        content = str(entry["content"])
        if isinstance(calls, list):
            written = [_written_call(call) for call in calls if isinstance(call, dict)]
            content = "\n".join([*([content] if content else []), *written])
        rest = {key: value for key, value in entry.items() if key not in ("tool_calls", "tool_call_id")}
        plain.append({**rest, "content": content})
    if tools:
        block = _TOOLS_BLOCK.format(
            tools="\n".join(json.dumps(_described(t), ensure_ascii=False) for t in tools)
        ).rstrip("\n")
        if plain[0]["role"] == "system":
            plain[0] = {"role": "system", "content": f"{plain[0]['content']}\n\n{block}"}
        else:
            plain.insert(0, {"role": "system", "content": block})
    return plain


def _written_call(call: Object) -> str:
    function = call["function"]
    if not isinstance(function, dict):
        raise ValueError("a tool call without a function")
    content = {"name": function["name"], "arguments": function["arguments"]}
    return f"{OPEN}\n{json.dumps(content, ensure_ascii=False)}\n{CLOSE}"
