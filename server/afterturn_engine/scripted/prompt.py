"""What a request shows the scripted model: ids, in ChatML for a conversation."""

from collections.abc import Sequence

from pydantic import JsonValue

from afterturn_engine.scripted.vocabulary import IM_END, IM_START, decode_one, encode
from afterturn_engine.scripted.wire import Message


def chat_prompt(messages: Sequence[Message]) -> tuple[int, ...]:
    """Ids of the conversation and of the opening of the reply."""
    ids: list[int] = []
    for message in messages:
        text = message.text + "".join(_call_markup(call) for call in message.tool_calls or ())
        ids += [IM_START, *encode(f"{message.role}\n"), *encode(text), IM_END, *encode("\n")]
    return (*ids, IM_START, *encode("assistant\n"))


def rendered(prompt: Sequence[int]) -> str:
    """A prompt's ids as text, control marks included."""
    return "".join(map(decode_one, prompt))


def _call_markup(call: dict[str, JsonValue]) -> str:
    function = call.get("function")
    if not isinstance(function, dict):
        return ""
    name, arguments = function.get("name"), function.get("arguments")
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def text_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> list[tuple[int, ...]]:
    """Ids of every prompt of a text completion."""
    if isinstance(prompt, str):
        return [encode(prompt)]
    prompts: list[tuple[int, ...]] = []
    bare: list[int] = []
    for item in prompt:
        if isinstance(item, int):
            bare.append(item)
        else:
            prompts.append(encode(item) if isinstance(item, str) else tuple(item))
    return [tuple(bare)] if bare else prompts
