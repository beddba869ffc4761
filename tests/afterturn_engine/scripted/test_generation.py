"""What a scripted choice says under the bounds of a request."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_engine.scripted import Reply, ToolCall
from afterturn_engine.scripted.generation import Bounds, Generation, generate

TEXT = "alpha beta gamma delta"


def said(reply: Reply, bounds: Bounds) -> Generation:
    return generate(reply, "what was said", "base", bounds)


def cut_at(text: str, points: list[int]) -> tuple[str, ...]:
    edges = [0, *sorted(point for point in set(points) if 0 < point < len(text)), len(text)]
    return tuple(text[start:end] for start, end in itertools.pairwise(edges))


@settings(deadline=None)
@given(st.lists(st.integers(1, len(TEXT) - 1)))
def test_a_stop_string_is_found_however_the_text_is_cut(points: list[int]) -> None:
    generation = said(Reply(pieces=cut_at(TEXT, points)), Bounds(1000, ("beta gamma",)))
    assert generation.text("content") == "alpha "
    assert (generation.finish_reason, generation.stop_reason) == ("stop", "beta gamma")


@settings(deadline=None)
@given(st.lists(st.integers(1, len(TEXT) - 1)))
def test_a_stop_string_that_is_absent_changes_nothing(points: list[int]) -> None:
    generation = said(Reply(pieces=cut_at(TEXT, points)), Bounds(1000, ("beta delta",)))
    assert generation.text("content") == TEXT
    assert (generation.finish_reason, generation.stop_reason) == ("stop", None)


def test_of_two_stop_strings_the_one_that_comes_first_in_the_text_ends_it() -> None:
    generation = said(Reply(content=TEXT), Bounds(1000, ("gamma", "beta")))
    assert (generation.text("content"), generation.stop_reason) == ("alpha ", "beta")


@pytest.mark.parametrize("tokens", range(1, 9))
def test_no_more_tokens_than_allowed(tokens: int) -> None:
    generation = said(Reply(content=TEXT), Bounds(tokens))
    # Eight tokens of text and the end of turn.
    assert generation.token_count == tokens
    assert generation.finish_reason == "length"
    assert TEXT.startswith(generation.text("content"))


def test_a_reply_without_words_repeats_what_it_was_told() -> None:
    assert said(Reply(), Bounds(1000)).text("content") == "what was said"


def test_calls_are_made_only_where_tools_are_offered() -> None:
    reply = Reply(tool_calls=(ToolCall(name="sail", arguments='{"to":  "sea"}'), ToolCall(name="moor")))
    with_tools = said(reply, Bounds(1000, tools=True))
    assert [(call.name, call.arguments) for call in with_tools.calls] == [
        ("sail", '{"to":  "sea"}'),
        ("moor", "{}"),
    ]
    assert with_tools.finish_reason == "tool_calls"
    without = said(reply, Bounds(1000))
    assert (without.calls, without.finish_reason) == ((), "stop")
    assert '"name": "sail"' in without.text("content")


def test_one_call_where_parallel_calls_are_not_wanted() -> None:
    reply = Reply(tool_calls=(ToolCall(name="sail"), ToolCall(name="moor")))
    assert [call.name for call in said(reply, Bounds(1000, tools=True, single_call=True)).calls] == ["sail"]


def test_a_call_cut_off_ends_by_length() -> None:
    reply = Reply(tool_calls=(ToolCall(name="sail", arguments='{"to": "the far sea"}'),))
    whole = said(reply, Bounds(1000, tools=True))
    cut = said(reply, Bounds(whole.token_count - 8, tools=True))
    assert cut.finish_reason == "length"
    assert '{"to": "the far sea"}'.startswith(cut.calls[0].arguments)
    assert cut.calls[0].arguments != whole.calls[0].arguments


def test_logprobs_depend_on_the_model() -> None:
    one, other = (generate(Reply(content=TEXT), "", model, Bounds(1000)) for model in ("base", "agent@v1"))
    first, second = ([t.logprob for p in g.pieces for t in p.tokens] for g in (one, other))
    assert len(first) == len(second) == one.token_count
    assert first != second
