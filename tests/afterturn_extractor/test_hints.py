import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_extractor.hints import LONGEST, from_correction, from_sentences, hint_text


def texts(*sentences: str) -> list[str]:
    return [hint.text for hint in from_sentences(sentences, "rules")]


def test_hints_are_distinct_and_shortest_first() -> None:
    assert texts("Keep it much shorter than that.", "Use metres.", "use metres", "In French!") == [
        "In French!",
        "Use metres.",
        "Keep it much shorter than that.",
    ]


def test_at_most_three_are_kept() -> None:
    assert len(texts("One", "Two words", "Three short words", "Four quite short words")) == 3


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Thanks, but please keep it short, cheers", "Keep it short"),
        ("Sorry, use metric units please.", "Use metric units"),
        ("No essay needed.", "No essay needed."),
        ("No, use metres", "Use metres"),
        ("Danke, aber bitte kürzer", "Kürzer"),
        ("Good sources only, please", "Good sources only"),
        ("e.g. use tables", "E.g. use tables"),
        ("Thanks!", ""),
        ("", ""),
    ],
)
def test_politeness_is_dropped(said: str, kept: str) -> None:
    assert hint_text(said) == kept


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
        "jane.doe@example.org",
        "4111 1111 1111 1111",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_secrets_are_removed(secret: str) -> None:
    text = hint_text(f"Use the key {secret} for that")
    assert secret not in text
    assert "[removed]" in text


def test_a_password_is_removed() -> None:
    assert "hunter22" not in hint_text("You should use the password: hunter22 there")


def test_long_quotations_are_removed_and_short_ones_kept() -> None:
    assert hint_text('Write "first name" instead') == 'Write "first name" instead'
    assert "lorem" not in hint_text(f'Do not say "{"lorem ipsum " * 10}" again')


def test_a_correction_is_a_hint_of_three_sentences_at_most() -> None:
    (hint,) = from_correction("Check the calendar. Then propose. Be brief. And smile. Mark this as good.")
    assert hint.text == "Check the calendar. Then propose. Be brief."
    assert hint.source == "explicit"
    assert from_correction("  ") == ()


@settings(deadline=None)
@given(st.text(max_size=1000))
def test_a_hint_is_bounded(text: str) -> None:
    assert len(hint_text(text)) <= LONGEST + 2
