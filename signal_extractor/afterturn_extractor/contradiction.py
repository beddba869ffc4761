"""Short texts that contradict the turn by what request and reply say, not by words of opinion."""

import re
from typing import Final

from afterturn_extractor.folding import fold, without_quotations
from afterturn_extractor.lexicon import lexicon
from afterturn_extractor.likeness import said_within, shares_word

ASKS: Final = ("?", "？", "؟")
OF_ONESELF: Final = re.compile(
    r"(?:i|we|my|our|ich|wir|mein\w*|je|j'\w*|mon|ma|nous|yo|mi|io|eu|meu|minha|ik|mijn|я|мы|мой|моя)\b|我|私|僕|저"
)
_ECHO_AT_MOST: Final = 3
_SHORT: Final = 8
_NUMBER: Final = re.compile(r"\d+")
_NAMED: Final = re.compile(
    r"(?:but |and |now )*(?:the|my|our|a|an|i|we|der|die|das|mein\w*|le|la|les|el|los|las|il) \w"
)
_COPULA: Final = re.compile(
    r"\b(?:is|are|was|were|has|have|exists?|ist|sind|war|hat|fährt|est|sont|es|está|son|è|sono|é|são)\b"
)
_STATED_IN: Final = 10
_STATEMENT_AT_MOST: Final = 16


def is_about(sentence: str, said_before: str) -> bool:
    """Whether what fails is what the turn was about: named before, or pointed at, or not named at all."""
    folded = fold(sentence)
    names_another = _NAMED.match(folded) is not None and lexicon().refers.search(folded) is None
    return not names_another or shares_word(sentence, said_before)


def echoes(sentence: str, reply_text: str) -> bool:
    """Whether a question only says a word or three of the reply again: "Formatted?"."""
    return sentence.strip().endswith(ASKS) and _only_repeats(sentence, reply_text)


def shouts_again(sentence: str, user_request: str) -> bool:
    """Whether an exclamation only says a word or three of the request again: "Minutes!"."""
    return sentence.strip().endswith(("!", "！")) and _only_repeats(sentence, user_request)


def _only_repeats(sentence: str, said_before: str) -> bool:
    return (
        len(sentence.split()) <= _ECHO_AT_MOST
        and shares_word(sentence, said_before)
        and said_within(sentence, said_before)
    )


def other_number(sentence: str, reply_text: str) -> bool:
    """Whether a short statement gives a number where the reply gave another: "I paid 50."."""
    ours, theirs = set(_NUMBER.findall(sentence)), set(_NUMBER.findall(reply_text))
    return (
        len(sentence.split()) <= _SHORT
        and not sentence.rstrip().endswith(ASKS)
        and bool(ours and theirs)
        and not ours & theirs
        and lexicon().task.search(fold(sentence)) is None
    )


def states_otherwise(sentence: str, reply_text: str) -> bool:
    """Whether a short statement says of something in the reply what it is: "The A4 is closed."."""
    folded = fold(without_quotations(sentence))
    found = _COPULA.search(folded)
    return (
        found is not None
        and len(folded.split()) <= _STATED_IN
        and len(folded[: found.start()].split()) <= _ECHO_AT_MOST
        and not folded.endswith(ASKS)
        and OF_ONESELF.match(folded) is None
        and shares_word(folded[: found.start()], reply_text)
    )


def denies(sentence: str, said_before: str) -> bool:
    """Whether a statement says "not" of something that was said before: a contradiction."""
    words = lexicon()
    folded = words.mask.sub(" · ", fold(without_quotations(sentence)))
    if (
        folded.rstrip().endswith(ASKS)
        or len(folded.split()) > _STATEMENT_AT_MOST
        or words.task.search(folded)
    ):
        return False
    found = words.denial.search(folded)
    # What people say of themselves contradicts nobody.
    return (
        found is not None
        and OF_ONESELF.match(folded) is None
        and shares_word(folded[: found.start()], said_before)
    )
