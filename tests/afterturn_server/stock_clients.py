"""The same things asked through the stock clients of every protocol, whole and in a stream."""

import json
from dataclasses import dataclass
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState

from .protocols import assistant

PLACE = {
    "type": "object",
    "properties": {"to": {"enum": ["sea", "moon"]}},
    "required": ["to"],
    "additionalProperties": False,
}
NAMES = ("sail", "fly")


@dataclass(frozen=True)
class Called:
    """One call of a tool, as the client understood it."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A reply as its client understood it; `ending` is the protocol's own word for why it ended."""

    text: str
    calls: tuple[Called, ...]
    read: int
    sampled: int
    ending: str
    id: str
    turn_id: str


def say(stack, protocol, messages, *, streamed=False, limit=24, **more):
    """Ask the agent `default`, greedily unless told otherwise; fields no client knows go into the body."""
    ask = {"chat": _chat, "completions": _completions, "responses": _responses, "messages": _messages}
    return ask[protocol](stack, messages, streamed, limit, {"temperature": 0, **more})


def _chat(stack, messages, streamed, limit, more):
    shape = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    raw = stack.openai().chat.completions.with_raw_response.create(
        model="default", messages=messages, max_tokens=limit, extra_body=more, **shape
    )
    answer = raw.parse()
    if streamed:
        state = ChatCompletionStreamState()
        for chunk in answer:
            state.handle_chunk(chunk)
        answer = state.current_completion_snapshot  # the final one is refused where the reply was cut
    (choice,) = answer.choices
    calls = [
        Called(call.id, call.function.name, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or ()
    ]
    usage = answer.usage
    return Said(
        choice.message.content or "",
        tuple(calls),
        usage.prompt_tokens,
        usage.completion_tokens,
        choice.finish_reason,
        answer.id,
        raw.headers["x-turn-id"],
    )


def _completions(stack, messages, streamed, limit, more):
    shape = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    raw = stack.openai().completions.with_raw_response.create(
        model="default", prompt=messages[-1]["content"], max_tokens=limit, extra_body=more, **shape
    )
    answers = list(raw.parse()) if streamed else [raw.parse()]
    choices = [choice for answer in answers for choice in answer.choices]
    usage = answers[-1].usage
    return Said(
        "".join(choice.text for choice in choices),
        (),
        usage.prompt_tokens,
        usage.completion_tokens,
        choices[-1].finish_reason,
        answers[0].id,
        raw.headers["x-turn-id"],
    )


def _responses(stack, messages, streamed, limit, more):
    shape = {"stream": True} if streamed else {}
    raw = stack.openai().responses.with_raw_response.create(
        model="default", input=messages, max_output_tokens=limit, extra_body=more, **shape
    )
    answer = raw.parse()
    if streamed:
        answer = [event for event in answer if hasattr(event, "response")][-1].response
    calls = [
        Called(item.call_id, item.name, json.loads(item.arguments))
        for item in answer.output
        if item.type == "function_call"
    ]
    return Said(
        answer.output_text,
        tuple(calls),
        answer.usage.input_tokens,
        answer.usage.output_tokens,
        answer.status,
        answer.id,
        raw.headers["x-turn-id"],
    )


def _messages(stack, messages, streamed, limit, more):
    asked = {"model": "default", "messages": messages, "max_tokens": limit, "extra_body": more}
    if streamed:
        with stack.anthropic().messages.stream(**asked) as stream:
            answer, headers = stream.get_final_message(), stream.response.headers
    else:
        raw = stack.anthropic().messages.with_raw_response.create(**asked)
        answer, headers = raw.parse(), raw.headers
    calls = [
        Called(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"
    ]
    return Said(
        "".join(block.text for block in answer.content if block.type == "text"),
        tuple(calls),
        answer.usage.input_tokens,
        answer.usage.output_tokens,
        answer.stop_reason,
        answer.id,
        headers["x-turn-id"],
    )


def tools(protocol, choice):
    """Two tools, and whether one is to be called: `required`, `none`, or the one named."""
    if protocol == "messages":
        offered = [{"name": name, "input_schema": PLACE, "strict": True} for name in NAMES]
        kind = {"required": "any", "none": "none"}.get(choice)
        return {
            "tools": offered,
            "tool_choice": {"type": kind} if kind else {"type": "tool", "name": choice},
        }
    functions = [{"name": name, "parameters": PLACE, "strict": True} for name in NAMES]
    if protocol == "responses":
        offered = [{"type": "function", **function} for function in functions]
        named = {"type": "function", "name": choice}
    else:
        offered = [{"type": "function", "function": function} for function in functions]
        named = {"type": "function", "function": {"name": choice}}
    return {"tools": offered, "tool_choice": choice if choice in ("required", "none") else named}


def form(protocol, schema):
    """The demand for JSON of this schema; completions have it under vLLM's name."""
    if protocol == "completions":
        return {"structured_outputs": {"json": schema}}
    if protocol == "messages":
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    named = {"name": "out", "schema": schema, "strict": True}
    if protocol == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def told(protocol, said):
    """A reply as its protocol's history has it."""
    if not said.calls:
        return [assistant(said.text)]
    (call,) = said.calls
    if protocol == "messages":
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        return [{"role": "assistant", "content": [block]}]
    arguments = json.dumps(call.arguments)
    if protocol == "responses":
        return [{"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}]
    function = {"name": call.name, "arguments": arguments}
    made = {"id": call.id, "type": "function", "function": function}
    return [{"role": "assistant", "content": None, "tool_calls": [made]}]


def result(protocol, call, text):
    """What a call led to, as its protocol's history has it."""
    if protocol == "messages":
        block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return [{"role": "user", "content": [block]}]
    if protocol == "responses":
        return [{"type": "function_call_output", "call_id": call.id, "output": text}]
    return [{"role": "tool", "tool_call_id": call.id, "content": text}]
