"""Text to ids and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_engine.scripted.vocabulary import IM_END, VOCABULARY_SIZE, decode, decode_one, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@settings(deadline=None)
@given(TEXT)
def test_every_text_comes_back(text: str) -> None:
    assert decode(encode(text)) == text


@settings(deadline=None)
@given(TEXT)
def test_ids_lie_in_the_vocabulary_and_are_no_control_marks(text: str) -> None:
    assert all(IM_END < token_id < VOCABULARY_SIZE for token_id in encode(text))


@settings(deadline=None)
@given(st.integers(0, 0x10FFFF).filter(lambda point: not 0xD800 <= point < 0xE000))
def test_different_texts_have_different_ids(point: int) -> None:
    assert encode(chr(point)) != encode("abc")
    assert encode(f"a{chr(point)}") != encode(f"b{chr(point)}")


def test_english_takes_a_third_of_its_characters() -> None:
    assert len(encode("The sea and the stars.")) == 8


def test_an_id_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="out of vocabulary"):
        decode_one(VOCABULARY_SIZE)
