"""Field case B13: tool calls in plain answers and in streams, from replies told token by token."""

import asyncio
import json
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from afterturn_engine import chat, chat_stream
from afterturn_engine.adapters import Adapters
from afterturn_engine.engine import Engine
from afterturn_engine.grammar import Grammars
from afterturn_engine.model import Model
from afterturn_engine.requests import ChatRequest
from afterturn_engine.sequence import Delta, Sequence
from afterturn_engine.template import Template

WEATHER = '<tool_call>{"name": "get_weather", "arguments": {"city": "Köln"}}</tool_call>'
TIME = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "get_time")]
NAMED = {"type": "function", "function": {"name": "get_time"}}


@dataclass
class Told:
    """In place of the scheduler: every sequence says `text`, three characters a token."""

    text: str
    finish_reason: str

    def submit(self, sequences: Items[Sequence]) -> None:
        pieces = [self.text[at : at + 3] for at in range(0, len(self.text), 3)]
        for sequence in sequences:
            for place, piece in enumerate([*pieces, ""]):
                finish = self.finish_reason if place == len(pieces) else None
                sequence.listener(Delta(piece, (place + 5,), (), finish, None))

    def cancel(self, sequences: Items[Sequence]) -> None:
        pass


class Talk:
    """The same request answered plainly and streamed."""

    def __init__(
        self,
        model: Model,
        adapters: Adapters,
        text: str,
        finish_reason: str,
        fields: Any,
        thinks: bool = False,
    ) -> None:
        body = {"messages": [{"role": "user", "content": "?"}], "return_token_ids": True, **fields}
        asked = ChatRequest.model_validate(body)

        async def run() -> None:
            template = Template(model.tokenizer)
            template.thinks = thinks
            grammars = Grammars(model.tokenizer, model.vocabulary_size, model.eos_token_ids)
            scheduler: Any = Told(text, finish_reason)
            engine = Engine("base", model, template, adapters, scheduler, grammars)
            answer = await chat.answer(await chat.accept(engine, asked))
            self.choice: dict[str, Any] = json.loads(answer.model_dump_json())["choices"][0]
            chunks = [c async for c in chat_stream.stream(await chat.accept(engine, asked))]
            self.chunks = [json.loads(chunk.model_dump_json(exclude_unset=True)) for chunk in chunks]

        asyncio.run(run())

    @property
    def accumulated(self) -> dict[str, Any]:
        """The stream as openai-python puts it together."""
        state = ChatCompletionStreamState()
        for chunk in self.chunks:
            state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
        return state.current_completion_snapshot.choices[0].model_dump()


def calls_of(message: dict[str, Any]) -> list[tuple[str, str]]:
    return [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]


CASES: dict[str, tuple[str, str, dict[str, Any], str, int]] = {
    # text, how it ended, request fields -> finish reason, number of calls
    "two calls": (f"One moment. {WEATHER}\n{TIME}", "stop", {}, "tool_calls", 2),
    "one at most": (WEATHER + TIME, "stop", {"parallel_tool_calls": False}, "tool_calls", 1),
    "none allowed": (WEATHER, "stop", {"tool_choice": "none"}, "stop", 0),
    "named": (TIME, "stop", {"tool_choice": NAMED}, "stop", 1),
    "required": (TIME, "stop", {"tool_choice": "required"}, "tool_calls", 1),
    "required, but in words": ("I would rather not.", "stop", {"tool_choice": "required"}, "stop", 0),
    "cut off in the arguments": (WEATHER[:40], "length", {}, "length", 0),
    "cut off behind a call": (WEATHER + TIME[:20], "length", {}, "length", 1),
    "end tag forgotten": (TIME.removesuffix("</tool_call>"), "stop", {}, "tool_calls", 1),
    "does not parse": ("<tool_call>{oops</tool_call> well", "stop", {}, "stop", 0),
    "words only": ("It is < 5 and <tool", "stop", {}, "stop", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_both_forms_agree(model: Model, adapters: Adapters, case: str) -> None:
    text, ending, fields, finish_reason, number = CASES[case]
    talk = Talk(model, adapters, text, ending, {"tools": TOOLS, **fields})
    message = talk.choice["message"]
    assert len(calls_of(message)) == number
    assert talk.choice["finish_reason"] == finish_reason
    assert all(isinstance(json.loads(arguments), dict) for _, arguments in calls_of(message))
    streamed = talk.accumulated
    assert calls_of(streamed["message"]) == calls_of(message)
    assert (streamed["message"]["content"] or "") == (message["content"] or "")
    assert streamed["finish_reason"] == finish_reason
    ids = [i for chunk in talk.chunks for c in chunk["choices"] for i in c.get("token_ids") or ()]
    assert ids == talk.choice["token_ids"]


def test_tools_of_other_kinds_are_passed_over(model: Model, adapters: Adapters) -> None:
    fields = {"tools": [{"type": "web_search"}, {"type": "custom", "name": "x"}], "tool_choice": "auto"}
    talk = Talk(model, adapters, WEATHER, "stop", fields)
    assert talk.choice["message"]["content"] == WEATHER
    assert talk.choice["finish_reason"] == "stop"


def test_content_beside_calls_is_null_unless_something_was_said(model: Model, adapters: Adapters) -> None:
    assert Talk(model, adapters, WEATHER, "stop", {"tools": TOOLS}).choice["message"]["content"] is None
    said = Talk(model, adapters, f"Look: {WEATHER}", "stop", {"tools": TOOLS}).choice["message"]["content"]
    assert said == "Look: "


def test_the_shape_of_call_deltas(model: Model, adapters: Adapters) -> None:
    talk = Talk(model, adapters, WEATHER + TIME, "stop", {"tools": TOOLS})
    deltas = [
        c["delta"]["tool_calls"][0] for k in talk.chunks for c in k["choices"] if "tool_calls" in c["delta"]
    ]
    assert [delta["index"] for delta in deltas] == [0, 0, 1, 1]
    for head, body in (deltas[:2], deltas[2:]):
        assert set(head) == {"index", "id", "type", "function"}
        assert head["function"]["arguments"] == ""
        assert set(body) == {"index", "function"}
        assert set(body["function"]) == {"arguments"}
    assert deltas[0]["id"] != deltas[2]["id"]


def test_silent_tokens_make_no_chunk_unless_their_ids_are_wanted(model: Model, adapters: Adapters) -> None:
    wanted = Talk(model, adapters, WEATHER, "stop", {"tools": TOOLS})
    unwanted = Talk(model, adapters, WEATHER, "stop", {"tools": TOOLS, "return_token_ids": False})
    # The role, the call's two deltas, the end.
    assert len(unwanted.chunks) == 4
    assert len(wanted.chunks) > len(unwanted.chunks) + 10


@pytest.mark.parametrize("ending", ["stop", "length"])
@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        ("<think>\nMust I?</think>\n\nYes.", "Must I?", "Yes.", 0),
        (f"<think>The <tool_call> is next.</think>{TIME}", "The <tool_call> is next.", None, 1),
        ("<think>and so on, for ever", "and so on, for ever", None, 0),
        ("No thought at all. <think>x</think>", None, "No thought at all. <think>x</think>", 0),
        ("<thin", None, "<thin", 0),
    ],
)
def test_thoughts_are_apart_from_words(
    model: Model,
    adapters: Adapters,
    text: str,
    reasoning: str | None,
    content: str | None,
    calls: int,
    ending: str,
) -> None:
    """Field case B03."""
    talk = Talk(model, adapters, text, ending, {"tools": TOOLS}, thinks=True)
    message = talk.choice["message"]
    assert (message["reasoning"], message["content"]) == (reasoning, content)
    assert len(calls_of(message)) == calls
    deltas = [choice["delta"] for chunk in talk.chunks for choice in chunk["choices"]]
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == (reasoning or "")
    assert "".join(delta.get("content") or "" for delta in deltas) == (content or "")
    hidden = Talk(model, adapters, text, ending, {"tools": TOOLS, "include_reasoning": False}, thinks=True)
    assert hidden.choice["message"]["reasoning"] is None
    assert not any("reasoning" in c["delta"] for chunk in hidden.chunks for c in chunk["choices"])
    assert hidden.choice["token_ids"] == talk.choice["token_ids"]


def test_a_model_that_does_not_think_has_no_thoughts(model: Model, adapters: Adapters) -> None:
    message = Talk(model, adapters, "<think>x</think>y", "stop", {}).choice["message"]
    assert (message["reasoning"], message["content"]) == (None, "<think>x</think>y")
