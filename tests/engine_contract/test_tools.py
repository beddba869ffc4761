"""Field case B13: calls that the request demands, whole and in a stream."""

import json

import pytest
from tests.engine_contract.engine import Engine, Json, chat_body
from tests.engine_contract.test_chat import chat_text, sampled_ids
from tests.engine_contract.test_refusals import refused

PLACE = {
    "type": "object",
    "properties": {"to": {"enum": ["sea", "moon"]}},
    "required": ["to"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "sail", "parameters": PLACE, "strict": True}},
    {"type": "function", "function": {"name": "fly", "parameters": PLACE, "strict": True}},
]
NAMED = {"type": "function", "function": {"name": "sail"}}
ASKED = {
    "messages": [{"role": "user", "content": "Now call a tool."}],
    "tools": TOOLS,
    "parallel_tool_calls": False,
    "max_tokens": 200,
    "return_token_ids": True,
}
# OpenAI answers `stop` where the client named the tool.
CHOICES = [("required", "tool_calls"), (NAMED, "stop")]


def call_deltas(events: list[Json]) -> list[Json]:
    choices = [choice for event in events for choice in event["choices"]]
    return [delta for choice in choices for delta in choice["delta"].get("tool_calls") or ()]


@pytest.mark.parametrize(("tool_choice", "finish"), CHOICES, ids=["required", "named"])
def test_a_call_that_was_demanded_is_made(engine: Engine, tool_choice: object, finish: str) -> None:
    (choice,) = engine.chat(**ASKED, tool_choice=tool_choice)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert isinstance(call["id"], str)
    assert call["function"]["name"] in (("sail",) if tool_choice == NAMED else ("sail", "fly"))
    assert json.loads(call["function"]["arguments"]) in ({"to": "sea"}, {"to": "moon"})
    assert not choice["message"]["content"]
    assert choice["finish_reason"] == finish


@pytest.mark.parametrize(("tool_choice", "finish"), CHOICES, ids=["required", "named"])
def test_a_streamed_call_is_the_same_call(engine: Engine, tool_choice: object, finish: str) -> None:
    (whole,) = engine.chat(**ASKED, tool_choice=tool_choice)["choices"]
    events = engine.chat_events(**ASKED, tool_choice=tool_choice)
    first, *rest = call_deltas(events)
    assert first["index"] == 0
    assert (first["type"], bool(first["id"])) == ("function", True)
    assert not first["function"].get("arguments")
    for delta in rest:
        assert delta["index"] == 0
        assert not delta.get("id")
        assert not delta["function"].get("name")
    (call,) = whole["message"]["tool_calls"]
    assert first["function"]["name"] == call["function"]["name"]
    arguments = "".join(delta["function"]["arguments"] for delta in rest)
    assert json.loads(arguments) == json.loads(call["function"]["arguments"])
    assert chat_text(events) == ""
    assert sampled_ids(events) == whole["token_ids"]
    finishes = [choice["finish_reason"] for event in events for choice in event["choices"]]
    assert finishes[-1] == finish
    assert set(finishes[:-1]) == {None}


def test_no_call_where_none_is_allowed(engine: Engine) -> None:
    (choice,) = engine.chat(**ASKED, tool_choice="none")["choices"]
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] in ("stop", "length")
    events = engine.chat_events(**ASKED, tool_choice="none")
    assert call_deltas(events) == []
    assert chat_text(events) == choice["message"]["content"]


def test_a_call_cut_off_is_not_finished(engine: Engine) -> None:
    fields = {**ASKED, "max_tokens": 5, "tool_choice": "required"}
    (choice,) = engine.chat(**fields)["choices"]
    assert choice["finish_reason"] == "length"
    finishes = [c["finish_reason"] for event in engine.chat_events(**fields) for c in event["choices"]]
    assert finishes[-1] == "length"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": []}, "tools"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "row"}}}, "tool_choice"),
    ],
    ids=["no-tools", "none-offered", "not-offered"],
)
@pytest.mark.parametrize("stream", [True, False])
def test_tools_that_make_no_sense_are_refused(engine: Engine, fields: Json, param: str, stream: bool) -> None:
    error = refused(engine.post("/v1/chat/completions", chat_body(**fields, stream=stream)), 400)
    assert error["param"] == param
