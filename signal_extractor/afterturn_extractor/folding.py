"""Text as the rules compare it: one spelling for what looks the same, and sentences."""

import re
import unicodedata
from typing import Final

# Letters of other scripts that pass for Latin ones, for words that mix scripts to slip past a word list.
_LOOKALIKES: Final = str.maketrans(
    "аеорсухіјѕԁһкмтвнгΑΒΕΖΗΙΚΜΝΟΡΤΥΧαοιρνκυτАВЕКМНОРСТУХІЈЅ",
    "aeopcyxijsdhkmtbhrABEZHIKMNOPTYXaoipvkutABEKMHOPCTYXIJS",
)
_CONTROLS: Final = dict.fromkeys((*range(9), *range(11, 32), 127))
_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile(r"[A-Za-z]")
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+|(?<=[。])|(?<=[!?])(?=[\u3040-\u9fff])|(?<=[،؟۔।])\s*|\n+|\.\.\.+"
)
_QUOTATION: Final = re.compile(r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|「[^」\n]{1,400}」")

_CONTRACTIONS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), spelled)
    for pattern, spelled in (
        (r"\bcan'?t\b|\bcannot\b", "can not"),
        (r"\bwon't\b|\bwont\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|has|have|had|would|could|should|need)n'?t\b", r"\1 not"),
        (r"\b(that|it|he|she|what|where|who|there|here)'s\b", r"\1 is"),
        (r"\b(that|what)s\b", r"\1 is"),
        (r"\bi'm\b|\bim\b", "i am"),
        (r"\b(did|does|do)'t\b", r"\1 not"),
        (r"\b(\w+)'re\b", r"\1 are"),
        (r"\b(\w+)'ve\b", r"\1 have"),
        (r"\b(\w+)'ll\b", r"\1 will"),
        (r"\b(i|you|he|she|we|they|that|it)'d\b", r"\1 would"),
        (r"\breally not\b", "not"),
        (r"\bnot (?:really|so|very|even|actually|particularly|quite|all that) (?=\w)", "not "),
    )
)


def clean(text: str) -> str:
    """Return `text` in NFKC, without invisible characters, lookalikes inside Latin words made Latin."""
    if text.isascii():  # most is, and nothing else here changes it
        return text.translate(_CONTROLS)
    text = unicodedata.normalize("NFKC", text)
    text = "".join(character for character in text if character in "\n\t" or not _is_invisible(character))
    return _WORD.sub(lambda word: word[0].translate(_LOOKALIKES) if _LATIN.search(word[0]) else word[0], text)


def _is_invisible(character: str) -> bool:
    # Marks left uncomposed by NFKC (stacked accents, emoji selectors); vowel signs of other scripts stay.
    stray = "\u0300" <= character <= "\u036f" or "\ufe00" <= character <= "\ufe0f"
    return stray or unicodedata.category(character) in ("Cf", "Cc")


def without_quoted_blocks(text: str) -> str:
    """Return `text` without fenced code and lines quoted with `>`: they are somebody else's words."""
    return _QUOTED_LINE.sub("", _FENCE.sub(" ", text))


def sentences(text: str) -> tuple[str, ...]:
    """Split `text` at sentence ends, line breaks and dot runs; empty pieces are dropped."""
    return tuple(piece.strip() for piece in _SENTENCE_END.split(text) if piece and piece.strip())


def without_quotations(text: str) -> str:
    """Return `text` with every quoted span replaced by `\"\"`, so that quoted words carry no opinion."""
    return _QUOTATION.sub('""', text)


def fold(text: str) -> str:
    """Return `text` as patterns see it: case folded, contractions spelled out, spaces single."""
    folded = " ".join(text.casefold().replace("’", "'").replace("‘", "'").replace("`", "'").split())
    for pattern, spelled in _CONTRACTIONS:
        folded = pattern.sub(spelled, folded)
    return " ".join(folded.split())
