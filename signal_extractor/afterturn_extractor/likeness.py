"""How alike two requests are, for telling that a user asks the same thing once more."""

import re
from typing import Final

from afterturn_extractor.folding import clean, fold
from afterturn_extractor.lexicon import lexicon

_WORD: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMPARED_AT_MOST: Final = 2000
_FEWEST: Final = 3


def likeness(text: str, other: str) -> float:
    """Return the share in 0..1 of common content words (character pairs in unspaced scripts), relative to all
    of both. 0 where either has fewer than three."""
    ours, theirs = _marks(text), _marks(other)
    if min(len(ours), len(theirs)) < _FEWEST:
        return 0.0
    return len(ours & theirs) / len(ours | theirs)


def held_share(text: str, other: str) -> float:
    """Return the share in 0..1 of the content words of `text` that `other` holds; 0 if it has fewer than
    three."""
    ours = _marks(text)
    return len(ours & _marks(other)) / len(ours) if len(ours) >= _FEWEST else 0.0


def shares_word(text: str, other: str) -> bool:
    """Return whether `text` has a content word that `other` holds too."""
    return bool(_marks(text) & _marks(other))


def said_within(text: str, other: str) -> bool:
    """Return whether `other` holds every content word of `text`."""
    return _marks(text) <= _marks(other)


def _marks(text: str) -> frozenset[str]:
    common = lexicon().common
    folded = fold(clean(text[:_COMPARED_AT_MOST]))
    if _UNSPACED.search(folded):
        letters = "".join(_WORD.findall(folded))
        return frozenset(letters[at : at + 2] for at in range(len(letters) - 1))
    return frozenset(_stem(word) for word in _WORD.findall(folded) if word not in common)


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
