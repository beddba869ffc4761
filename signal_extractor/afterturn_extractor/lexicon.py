"""The word lists of `language/*.txt`, compiled.

Each file holds one language in sections:

    mask        phrases that look like a reaction and are none; blanked out before anything else is matched
    negation    words that turn praise shortly after them into its opposite
    delight     praise so plain that it stands against words of the sections below it
    reject      the reply was bad; says nothing about how it should have been
    complain    the reply was bad, and the words say in which direction
    instruct    says how the reply should have been or should be next time
    approve     the reply was good
    thanks      politeness: approval only where nothing else speaks
    describe    a rater's neutral account of what the answer contains: weak approval
    onward      the conversation goes on: no opinion
    yes, no     bare answers: to a question they agree or decline
    corrects    how a text begins that takes back what the turn assumed
    task        how a new task begins; it holds no opinion on the turn before, unless it
    refers      refers back to it
    fragment    a few words and a "please": a wish about the reply, unless the turn asked for it
    symptom     that something fails or is lost: the reply was bad where it was about that
    denial      how a statement denies; the reply was bad where its subject was named in request or reply
    order       a condition, a contrast or a bare order about the reply; an answer, where the turn asked
    wish        what the user wants: a correction, unless the turn asked for it
    doubt       faint criticism, which any praise outweighs
    ack         words that say no more than that the reply was seen; no verdict where nothing else is said
    offer       how a turn offers something, so that declining is no criticism
    but         words after which the part that counts begins
    pleasantry  words dropped from both ends of a hint
    opening     words dropped there too, but only where a comma or full stop parts them from the rest
    common      words, not patterns, that make no two requests alike
"""

import functools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

SECTIONS: Final = (
    "mask",
    "negation",
    "delight",
    "reject",
    "complain",
    "instruct",
    "approve",
    "thanks",
    "describe",
    "onward",
    "yes",
    "no",
    "corrects",
    "task",
    "refers",
    "fragment",
    "symptom",
    "denial",
    "order",
    "wish",
    "doubt",
    "ack",
    "offer",
    "but",
    "pleasantry",
    "opening",
)
COMMON: Final = "common"
_NOTHING: Final = re.compile(r"(?!)")


class LexiconError(ValueError):
    """A word list that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One compiled pattern a section, over the folded text of all languages together."""

    mask: re.Pattern[str]
    negation: re.Pattern[str]
    delight: re.Pattern[str]
    reject: re.Pattern[str]
    complain: re.Pattern[str]
    instruct: re.Pattern[str]
    approve: re.Pattern[str]
    thanks: re.Pattern[str]
    describe: re.Pattern[str]
    onward: re.Pattern[str]
    yes: re.Pattern[str]
    no: re.Pattern[str]
    corrects: re.Pattern[str]
    task: re.Pattern[str]
    refers: re.Pattern[str]
    fragment: re.Pattern[str]
    symptom: re.Pattern[str]
    denial: re.Pattern[str]
    order: re.Pattern[str]
    wish: re.Pattern[str]
    doubt: re.Pattern[str]
    ack: re.Pattern[str]
    offer: re.Pattern[str]
    but: re.Pattern[str]
    pleasantry: re.Pattern[str]
    opening: re.Pattern[str]
    common: frozenset[str]


def parse(name: str, text: str) -> dict[str, list[str]]:
    """Return the patterns of each section of one language file; raises LexiconError with the line."""
    found: dict[str, list[str]] = {section: [] for section in (*SECTIONS, COMMON)}
    bounded, section = True, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            # Scripts written without spaces have no word edges to ask for.
            bounded = bounded and line != "# no word edges"
        elif line.startswith("[") and line.endswith("]") and line[1:-1] in (*SECTIONS, COMMON):
            section = line[1:-1]
        elif not section:
            raise LexiconError(f"{name}:{number}: a pattern before any section")
        elif section == COMMON:
            found[COMMON].extend(line.split())
        else:
            try:
                re.compile(line)
            except re.error as error:
                raise LexiconError(f"{name}:{number}: {error}") from error
            found[section].append(rf"(?<!\w)(?:{line})(?!\w)" if bounded else f"(?:{line})")
    return found


@functools.cache
def lexicon() -> Lexicon:
    """Return all languages in one lexicon; texts mix languages, so none is guessed first."""
    patterns: dict[str, list[str]] = {section: [] for section in (*SECTIONS, COMMON)}
    folder = resources.files("afterturn_extractor") / "language"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".txt"):
            for section, found in parse(file.name, file.read_text(encoding="utf-8")).items():
                patterns[section].extend(found)
    return Lexicon(
        **{section: _union(patterns[section]) for section in SECTIONS}, common=frozenset(patterns[COMMON])
    )


def _union(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns)) if patterns else _NOTHING
