import pytest

from afterturn_extractor.folding import clean, fold, sentences
from afterturn_extractor.lexicon import SECTIONS, LexiconError, lexicon, parse


def test_a_file_is_read_by_sections() -> None:
    found = parse("xx.txt", "# a language\n[reject]\nbad\n\n[thanks]\nta+\n[common]\nthe a\n")
    assert found["reject"] == [r"(?<!\w)(?:bad)(?!\w)"]
    assert found["common"] == ["the", "a"]
    assert parse("xx.txt", "# no word edges\n[reject]\n不对")["reject"] == ["(?:不对)"]


@pytest.mark.parametrize("text", ["bad", "[reject]\n(bad"])
def test_a_malformed_file_is_named_with_its_line(text: str) -> None:
    with pytest.raises(LexiconError, match=r"xx\.txt:\d"):
        parse("xx.txt", text)


def test_no_pattern_matches_nothing_at_all() -> None:
    for section in SECTIONS:
        assert getattr(lexicon(), section).search("") is None, section


def test_words_end_where_they_end() -> None:
    assert lexicon().reject.search("wrongful") is None
    assert lexicon().reject.search("wrong") is not None


def test_folding_spells_contractions_out() -> None:
    assert fold("That’s  NOT what I'd say, it isn't") == "that is not what i would say, it is not"


def test_sentences_end_in_every_script() -> None:
    assert sentences("One. Two! Three?\nFour ... five") == ("One.", "Two!", "Three?", "Four", "five")
    assert sentences(clean("太长了！请简短。谢谢")) == ("太长了!", "请简短。", "谢谢")


def test_vowel_signs_survive_cleaning() -> None:
    assert clean("हिन्दी") == "हिन्दी"
    assert clean("caf\u0065\u0301") == "café"
