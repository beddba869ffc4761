"""Replies held to a grammar: what a follower allows, and what it says about who chose."""

import pytest

from afterturn_engine.errors import InvalidRequest
from afterturn_engine.grammar import GrammarFailed, Grammars
from afterturn_engine.model import Model

EOS = 2


def follow(model: Model, grammars: Grammars, grammar: str, text: str) -> tuple[str, str, bool]:
    """How much of `text` may be said, a mark a token of it (`F`: forced), and whether it may end there."""
    backend = model.tokenizer.backend_tokenizer
    follower = grammars.compile(grammar, "field").begin()
    said: list[int] = []
    marks = ""
    for token_id in backend.encode(text, add_special_tokens=False).ids:
        allowed = follower.allowed()
        if not allowed.mask[token_id]:
            break
        marks += "F" if follower.forces(allowed, token_id) else "."
        follower.take(token_id)
        said.append(token_id)
    return backend.decode(said, skip_special_tokens=False), marks, bool(follower.allowed().mask[EOS])


def test_only_what_the_grammar_says_may_be_said(model: Model, grammars: Grammars) -> None:
    grammar = 'start: "be" ("a" | "xd")'
    assert follow(model, grammars, grammar, "bexd") == ("bexd", "FF.F", True)
    assert follow(model, grammars, grammar, "bea") == ("bea", "FF.", True)
    assert follow(model, grammars, grammar, "beg") == ("be", "FF", False)


def test_the_end_is_all_that_may_follow_the_end(model: Model, grammars: Grammars) -> None:
    follower = grammars.compile('start: "b"', "field").begin()
    follower.take(model.tokenizer.backend_tokenizer.token_to_id("b"))
    allowed = follower.allowed()
    assert follower.ended
    assert allowed.only
    assert allowed.mask.nonzero().flatten().tolist() == [EOS]
    assert follower.forces(allowed, EOS)


def test_the_mask_covers_the_models_whole_vocabulary(model: Model, grammars: Grammars) -> None:
    assert grammars.compile("start: /.*/", "field").begin().allowed().mask.shape == (model.vocabulary_size,)


def test_every_reply_follows_on_its_own(model: Model, grammars: Grammars) -> None:
    grammar = grammars.compile('start: "ab" | "cd"', "field")
    one, other = grammar.begin(), grammar.begin()
    a, c = map(model.tokenizer.backend_tokenizer.token_to_id, "ac")
    one.take(a)
    other.take(c)
    assert not one.allowed().mask[a]
    assert one.allowed().bytes_ahead == b"b"
    assert other.allowed().bytes_ahead == b"d"


def test_a_grammar_is_compiled_once(grammars: Grammars) -> None:
    assert grammars.compile('start: "once"', "field") is grammars.compile('start: "once"', "other")


@pytest.mark.parametrize("grammar", ["nonsense", "start: other", "start: /(/"])
def test_what_is_no_grammar_is_refused_by_its_field(grammars: Grammars, grammar: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        grammars.compile(grammar, "structured_outputs.grammar")
    assert refusal.value.param == "structured_outputs.grammar"


def test_a_token_that_was_not_allowed_is_a_failure(model: Model, grammars: Grammars) -> None:
    follower = grammars.compile('start: "ab"', "field").begin()
    with pytest.raises(GrammarFailed):
        follower.take(model.tokenizer.backend_tokenizer.token_to_id("x"))
