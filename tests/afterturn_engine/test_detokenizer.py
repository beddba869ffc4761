from hypothesis import given
from hypothesis import strategies as st

from afterturn_engine.detokenizer import Detokenizer, token_text
from afterturn_engine.model import Model


def test_text_comes_out_whole_and_no_character_in_halves(model: Model) -> None:
    backend = model.tokenizer.backend_tokenizer

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    def check(text: str) -> None:
        ids = backend.encode(text, add_special_tokens=False).ids
        detokenizer = Detokenizer(backend, [1, 2, 3], skip_special_tokens=False)
        pieces = [detokenizer.add(token_id) for token_id in ids]
        assert "".join(pieces) == text
        assert "�" in text or not any("�" in piece for piece in pieces)

    check()


def test_the_token_that_completes_a_character_carries_it(model: Model) -> None:
    backend = model.tokenizer.backend_tokenizer
    ids = backend.encode("a🙂", add_special_tokens=False).ids
    texts = [token_text(backend, token_id, ids[:place]) for place, token_id in enumerate(ids)]
    assert texts == ["a", "", "", "", "🙂"]


def test_bytes_that_are_no_character_do_not_break_the_stream(model: Model) -> None:
    backend = model.tokenizer.backend_tokenizer
    lone = backend.encode("🙂", add_special_tokens=False).ids[-1]
    word = backend.encode("hello", add_special_tokens=False).ids
    detokenizer = Detokenizer(backend, [], skip_special_tokens=True)
    text = "".join(detokenizer.add(token_id) for token_id in [lone, lone, *word, lone, *word])
    assert text.count("hello") == 2
