"""Field case B13: calls in a reply's text, whole or in pieces."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn_engine.tool_calls import ToolCallText

TWO = (
    'Let me see.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln </tool"}}\n</tool_call>\n'
    '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
)


def read(
    pieces: list[str], complete: bool = True, at_most_one: bool = False
) -> tuple[str, list[tuple[str, str]]]:
    parser = ToolCallText(at_most_one)
    found = [parser.feed(piece) for piece in pieces]
    found.append(parser.finish(complete))
    calls = [(call.name, call.arguments) for piece in found for call in piece.calls]
    assert parser.called == bool(calls)
    return "".join(piece.text for piece in found), calls


@given(st.lists(st.integers(0, len(TWO)), max_size=10))
def test_any_split_gives_the_same(points: list[int]) -> None:
    borders = [0, *sorted(points), len(TWO)]
    text, calls = read([TWO[a:b] for a, b in pairwise(borders)])
    assert text == "Let me see."
    assert calls == [("get_weather", '{"city": "Köln </tool"}'), ("get_time", "{}")]


def test_arguments_are_json_text() -> None:
    _, calls = read(['<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>'])
    assert json.loads(calls[0][1]) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "f", "arguments": </tool_call>',
        "<tool_call>not json</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        "<tool_call>[]</tool_call>",
        "a < b and <tool",
        "plain",
        "",
    ],
)
def test_what_does_not_parse_stays_text(text: str) -> None:
    assert read(list(text)) == (text, [])


def test_a_cut_off_call_is_text_and_a_forgotten_end_tag_is_forgiven() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}'
    assert read([text], complete=False) == (text, [])
    assert read([text], complete=True) == ("", [("f", "{}")])


def test_parallel_calls_switched_off() -> None:
    assert [name for name, _ in read([TWO], at_most_one=True)[1]] == ["get_weather"]


def test_text_behind_calls_is_kept_but_not_white_space() -> None:
    call = '<tool_call>{"name": "f"}</tool_call>'
    assert read([f"{call} \n {call}\nDone."])[0] == "Done."
