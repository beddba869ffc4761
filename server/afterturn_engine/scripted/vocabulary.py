"""A vocabulary without weights: text to ids and back, exactly and with no table."""

from collections.abc import Sequence

IM_START = 1
IM_END = 2

# One id per code point, then one per pair and per triple of ASCII characters, so
# that English text costs about a third of its characters in tokens, as with a
# real tokenizer, and decoding needs no memory of what was encoded.
_CODE_POINTS = 16
_PAIRS = _CODE_POINTS + 0x110000
_TRIPLES = _PAIRS + 128**2
VOCABULARY_SIZE = _TRIPLES + 128**3

SPECIAL = {IM_START: "<|im_start|>", IM_END: "<|im_end|>"}


def encode(text: str) -> tuple[int, ...]:
    """Ids of `text`; control marks written in it stay ordinary text."""
    ids: list[int] = []
    position = 0
    while position < len(text):
        run = text[position : position + 3]
        width = next((n for n in (3, 2) if len(run) >= n and run[:n].isascii()), 1)
        if width == 3:
            first, second, third = (ord(c) for c in run)
            ids.append(_TRIPLES + (first * 128 + second) * 128 + third)
        elif width == 2:
            ids.append(_PAIRS + ord(run[0]) * 128 + ord(run[1]))
        else:
            ids.append(_CODE_POINTS + ord(run[0]))
        position += width
    return tuple(ids)


def decode_one(token_id: int) -> str:
    """The text of one id; raises ValueError for an id outside the vocabulary."""
    if token_id in SPECIAL:
        return SPECIAL[token_id]
    if not _CODE_POINTS <= token_id < VOCABULARY_SIZE:
        raise ValueError(f"Token id {token_id} is out of vocabulary")
    if token_id >= _TRIPLES:
        rest, third = divmod(token_id - _TRIPLES, 128)
        first, second = divmod(rest, 128)
        return chr(first) + chr(second) + chr(third)
    if token_id >= _PAIRS:
        first, second = divmod(token_id - _PAIRS, 128)
        return chr(first) + chr(second)
    return chr(token_id - _CODE_POINTS)


def decode(token_ids: Sequence[int]) -> str:
    """The text of `token_ids`, control marks left out."""
    return "".join(decode_one(token_id) for token_id in token_ids if token_id not in SPECIAL)
