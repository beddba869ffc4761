"""Hints from the user's own words: what would have made the turn better, as a short instruction."""

import re
from collections.abc import Iterable
from typing import Final

from afterturn_core import masking
from afterturn_extractor.evidence import HINTS_KEPT, Hint, Source
from afterturn_extractor.folding import clean, fold, sentences, without_quoted_blocks
from afterturn_extractor.injection import speaks_to_judge
from afterturn_extractor.lexicon import lexicon

LONGEST: Final = 300
_SENTENCES: Final = 3
_LONG_QUOTATION: Final = re.compile(r"[\"“«]([^\"”»\n]{40,})[\"”»]")
_SECRETS: Final = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abprs]|glpat|hf|AKIA|AIza|ya29)[-_]?[A-Za-z0-9_-]{12,}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r"|\b(?=[A-Za-z0-9+/_-]*\d)(?=[A-Za-z0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{24,}={0,2}"
    r"|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
    r"|\b[\w.+-]+@[\w-]+\.[\w.]+\b"
    r"|\b(?:\d[ -]?){13,19}\b",
    re.DOTALL,
)
_SECRET_VALUE: Final = re.compile(
    r"(?i)\b(pass(?:word|wort|phrase)?|secret|token|api[ _-]?key|pin|bearer|contraseña|mot de passe|senha)"
    r"(\s*(?:is|ist|=|:|：|es|est)\s*|\s+)(\S{4,})"
)
_EDGE: Final = " \t,;:.!?-–—*_'\"“”«»()…"


def from_sentences(told: Iterable[str], source: Source) -> tuple[Hint, ...]:
    """Return up to three distinct hints from corrective sentences, shortest first."""
    return ranked((hint_text(sentence) for sentence in told), source)


def from_correction(text: str, source: Source = "explicit") -> tuple[Hint, ...]:
    """Return the hint in an explicit correction, its first three sentences at most; none if it is empty."""
    kept = [s for s in sentences(without_quoted_blocks(clean(text))) if not speaks_to_judge(s)][:_SENTENCES]
    return ranked([hint_text(" ".join(kept))], source)


def ranked(texts: Iterable[str], source: Source) -> tuple[Hint, ...]:
    """Return distinct non-empty texts as hints, shortest first, at most three."""
    distinct: dict[str, str] = {}
    for text in texts:
        if text:
            distinct.setdefault(fold(text).strip(_EDGE), text)
    return tuple(Hint(text, source) for text in sorted(distinct.values(), key=len)[:HINTS_KEPT])


def hint_text(sentence: str) -> str:
    """Return a sentence without long quotations, secrets and polite words at its ends, ≤ 300 characters.

    Empty if nothing is left that could instruct.
    """
    text = without_secrets(_LONG_QUOTATION.sub("", clean(sentence)))
    text = _without_pleasantries(" ".join(text.split()))
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0].rstrip(_EDGE) + " …"
    return text[:1].upper() + text[1:] if len(text) > 1 else ""


def without_secrets(text: str) -> str:
    """Return a text in which what looks like a secret or personal data is replaced."""
    text = _SECRET_VALUE.sub(r"\1\2[removed]", _SECRETS.sub("[removed]", text))
    return masking.mask(text).text if masking.installed() else text  # what the patterns do not know


def _without_pleasantries(text: str) -> str:
    polite, opening = lexicon().pleasantry.pattern, lexicon().opening.pattern
    leading = re.compile(
        rf"^(?:(?:{polite})(?:[\s,.!;:–—-]+|(?=[\u3040-\u9fff])|$)|(?:{opening})(?:\s*[,.!;:–—]+\s*|$))",
        re.IGNORECASE,
    )
    trailing = re.compile(
        rf"(?:[\s,.!;:–—-]+(?:{polite})|\s*[,.!;:–—]+\s*(?:{opening}))[\s.!]*$", re.IGNORECASE
    )
    while text and (shorter := trailing.sub("", leading.sub("", text))) != text:
        text = shorter
    return text
