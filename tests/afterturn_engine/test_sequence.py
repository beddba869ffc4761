"""Field case B11 at the engine: one reply, however the model cuts its text into tokens."""

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_engine.detokenizer import Detokenizer
from afterturn_engine.generation import joined
from afterturn_engine.model import Model
from afterturn_engine.reasoning import ReasoningText
from afterturn_engine.reply_text import ReplyText
from afterturn_engine.sequence import Delta, Sampling, Sequence
from afterturn_engine.tool_calls import ToolCallText

EOS = 2
TEXT = "alpha beta gamma délta 🙂"
CALL = '<tool_call>{"name": "f", "arguments": {"a": "beta gamma"}}</tool_call>'


@dataclass(frozen=True)
class Told:
    """A reply's deltas, and the ids that were offered to it."""

    deltas: list[Delta]
    ids: list[int]

    @property
    def whole(self) -> Delta:
        return joined(self.deltas)


def tell(model: Model, pieces: list[bytes], stops: tuple[str, ...], **sampling: object) -> Told:
    """Feed the tokens of `pieces`, each piece made into tokens on its own, and the end token."""
    backend = model.tokenizer.backend_tokenizer
    ids: list[int] = []
    for piece in pieces:
        # A byte that is no character by itself is one token of the byte-level vocabulary.
        try:
            ids += backend.encode(piece.decode(), add_special_tokens=False).ids
        except UnicodeDecodeError:
            ids += [byte_token(model, byte) for byte in piece]
    fields = {"max_tokens": 1000, "eos_token_ids": frozenset({EOS}), "stop": stops, **sampling}
    sequence = Sequence([1], Sampling(**fields), None, Detokenizer(backend, [1], True), lambda _: None)  # type: ignore[arg-type]
    deltas: list[Delta] = []
    for token_id in [*ids, EOS]:
        deltas.append(sequence.add_token(token_id, None))
        if sequence.finished:
            break
    return Told(deltas, ids)


def byte_token(model: Model, byte: int) -> int:
    """The one-byte token, by the byte-level alphabet's order: printable bytes stand for themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    name = chr(byte) if byte in plain else chr(256 + [b for b in range(256) if b not in plain].index(byte))
    token_id = model.tokenizer.backend_tokenizer.token_to_id(name)
    assert token_id is not None
    return token_id


def splits(text: str, parts: int) -> "itertools.chain[list[bytes]]":
    """Every way to cut the bytes of `text` into so many parts, and the one into single bytes."""
    raw = text.encode()
    cuts = itertools.combinations(range(1, len(raw)), parts - 1)
    pieces = ([raw[a:b] for a, b in itertools.pairwise([0, *points, len(raw)])] for points in cuts)
    return itertools.chain(pieces, [[raw[at : at + 1] for at in range(len(raw))]])


@pytest.mark.parametrize(
    ("stops", "text", "reason"),
    [
        (("beta gamma",), "alpha ", "beta gamma"),
        (("never said", "gamma", "x" * 40), "alpha beta ", "gamma"),
        (("é",), "alpha beta gamma d", "é"),
        (("🙂",), "alpha beta gamma délta ", "🙂"),
        (("🙂🙂", "gamma délta 🙂!"), TEXT, None),
        ((), TEXT, None),
    ],
)
def test_every_way_to_cut_the_text_into_tokens_ends_it_at_the_same_place(
    model: Model, stops: tuple[str, ...], text: str, reason: str | None
) -> None:
    for parts in (2, 3):
        for pieces in splits(TEXT, parts):
            told = tell(model, pieces, stops)
            assert (told.whole.text, told.whole.finish_reason) == (text, "stop")
            assert told.whole.stop_reason == reason
            # The ids are what was sampled, up to the token that completed the stop string and no further.
            kept = len(told.whole.token_ids)
            assert list(told.whole.token_ids) == [*told.ids, EOS][:kept]
            assert (kept == len(told.ids) + 1) == (reason is None)


def test_nothing_waits_that_no_stop_string_could_still_claim(model: Model) -> None:
    backend = model.tokenizer.backend_tokenizer
    for pieces in splits("a < b < c <d", 2):
        said, ids = "", list[int]()
        for delta in tell(model, pieces, ("</done>", "y" * 40)).deltas[:-1]:
            said += delta.text
            ids += delta.token_ids
            assert backend.decode(ids).removeprefix(said) in ("", "<")


@pytest.mark.parametrize("stops", [(), ("beta gamma",), ("}}<",)])
def test_held_text_goes_through_the_parsers_like_any_other(model: Model, stops: tuple[str, ...]) -> None:
    """A stop string inside a call's arguments leaves text and no call, streamed or not."""
    raw = f"<think>why beta</think>So: {CALL} {CALL}".encode()

    @settings(deadline=None, max_examples=40)
    @given(st.lists(st.integers(1, len(raw) - 1), max_size=9))
    def check(points: list[int]) -> None:
        edges = [0, *sorted(points), len(raw)]
        told = tell(model, [raw[a:b] for a, b in itertools.pairwise(edges)], stops)
        streamed = read([delta.text for delta in told.deltas])
        assert streamed == read([told.whole.text])
        reasoning, _, calls = streamed
        assert (reasoning, len(calls)) == ("why beta", 0 if stops else 2)

    check()


def read(pieces: list[str]) -> tuple[str, str, list[tuple[str, str]]]:
    reader = ReplyText(ReasoningText(), ToolCallText())
    found = [*map(reader.feed, pieces), reader.finish(complete=True)]
    calls = [(call.name, call.arguments) for said in found for call in said.calls]
    return "".join(said.reasoning for said in found), "".join(said.text for said in found), calls
