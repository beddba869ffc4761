"""Field case B11: stop strings across pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afterturn_engine.stop import StopText


def run(pieces: list[str], stops: list[str], keep: bool = False) -> tuple[str, str | None]:
    text = StopText(stops, keep)
    sent = ""
    for piece in pieces:
        release = text.feed(piece)
        sent += release.text
        if release.matched is not None:
            return sent, release.matched
    return sent + text.flush(), None


def cut(text: str, points: list[int]) -> list[str]:
    borders = [0, *sorted(p % (len(text) + 1) for p in points), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@given(st.lists(st.integers(0, 40), max_size=12), st.booleans())
def test_every_split_gives_the_same_text(points: list[int], keep: bool) -> None:
    pieces = cut("alpha beta gamma delta", points)
    expected = ("alpha beta gamma" if keep else "alpha ", "beta gamma")
    assert run(pieces, ["beta gamma"], keep) == expected


@given(st.text("ab<", max_size=20), st.lists(st.text("ab<", min_size=1, max_size=4), max_size=4), st.data())
def test_split_pieces_equal_single_characters(text: str, stops: list[str], data: st.DataObject) -> None:
    points = data.draw(st.lists(st.integers(0, 40), max_size=8))
    assert run(cut(text, points), stops) == run(list(text), stops)


def test_a_tail_that_did_not_become_a_stop_is_delivered() -> None:
    assert run(["alpha be", "ta g"], ["beta gamma"]) == ("alpha beta g", None)


def test_nothing_is_held_that_cannot_become_a_stop() -> None:
    text = StopText(["</done>", "x" * 40])
    assert [text.feed(piece).text for piece in ("a < b", " < c ", "<", "/d", "ata>")] == [
        "a < b", " < c ", "", "", "</data>",
    ]  # fmt: skip


def test_the_stop_that_completes_first_wins() -> None:
    assert run(["xabcd"], ["abcd", "bc"]) == ("xa", "bc")


def test_before_min_tokens_a_match_passes() -> None:
    text = StopText(["ab"])
    assert text.feed("ab", armed=False).text == "ab"
    assert text.feed("cab").matched == "ab"
