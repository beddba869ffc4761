"""Field case B03: thoughts at the beginning of a reply, whole or in pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn_engine.reasoning import ReasoningText

THOUGHTFUL = "\n<think>\nIs 1 </ 2? </thin\nYes.\n</think>\n\nIt is. </think>"


def read(pieces: list[str], thinking: bool = False) -> tuple[str, str]:
    reader = ReasoningText(thinking)
    found = [*map(reader.feed, pieces), reader.finish()]
    return "".join(f.reasoning for f in found), "".join(f.text for f in found)


@given(st.lists(st.integers(0, len(THOUGHTFUL)), max_size=12))
def test_any_split_gives_the_same(points: list[int]) -> None:
    borders = [0, *sorted(points), len(THOUGHTFUL)]
    pieces = [THOUGHTFUL[a:b] for a, b in pairwise(borders)]
    assert read(pieces) == ("Is 1 </ 2? </thin\nYes.", "It is. </think>")


@given(st.text("<think/> \n", max_size=30), st.booleans())
def test_pieces_equal_the_whole(text: str, thinking: bool) -> None:
    assert read(list(text), thinking) == read([text], thinking)


@pytest.mark.parametrize("text", ["plain", " <b>", "<thin", "", " \n", "a <think>b</think>"])
def test_a_reply_that_begins_with_no_thought_has_none(text: str) -> None:
    assert read([text]) == ("", text)
    assert read(list(text)) == ("", text)


def test_the_template_may_have_begun_the_thought() -> None:
    assert read(["so\n</think>\nyes"], thinking=True) == ("so", "yes")
    assert read(list("\nnever closed "), thinking=True) == ("never closed", "")


def test_thoughts_are_told_as_they_come() -> None:
    reader = ReasoningText()
    assert [reader.feed(piece).reasoning for piece in ("<think>", "a", " b", " </thi", "s>")] == [
        "", "a", " b", "", " </this>",
    ]  # fmt: skip
