"""A user's text after a turn, read as an opinion on the turn."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from afterturn_core.synthetic import is_synthetic, strip_envelope
from afterturn_extractor.contradiction import (
    ASKS,
    OF_ONESELF,
    denies,
    echoes,
    is_about,
    other_number,
    shouts_again,
    states_otherwise,
)
from afterturn_extractor.evidence import Verdict
from afterturn_extractor.folding import clean, fold, sentences, without_quotations, without_quoted_blocks
from afterturn_extractor.injection import speaks_to_judge
from afterturn_extractor.lexicon import Lexicon, lexicon
from afterturn_extractor.likeness import held_share, likeness

Cue = Literal[
    "delight",
    "complain",
    "instruct",
    "reject",
    "approve",
    "thanks",
    "doubt",
    "describe",
    "onward",
    "symptom",
    "order",
    "wish",
    "task",
    "edit",
    "question",
    "none",
]

# Above this share of common words the user asks the same thing once more.
REASKED_FROM: Final = 0.6
# Above these shares of its words in request and reply together, and in the reply, a text restates them.
_RESTATED_FROM: Final = 0.65
_REPEATED_FROM: Final = 0.4
# Above this share of its words said before, an order to change something is about the turn.
_ABOUT_FROM: Final = 0.2
# A person states an opinion early; what is longer is pasted.
_READ_AT_MOST: Final = 4000
_SENTENCE_AT_MOST: Final = 500
# Above this share of its words in the request, a wish is the request's.
_WANTED_FROM: Final = 0.3
# A question that shouts.
_OUTRAGE: Final = re.compile(r"\?!|!\?|\?\?\?")
_HEAD: Final = re.compile(r"[,.!;:、，。–—]")
_ORDER_SPREAD_OVER: Final = 3


@dataclass(frozen=True, slots=True)
class Reaction:
    """What one user text says about the turn; `directives` are its sentences that say how it should be."""

    verdict: Verdict | None
    rationale: str
    directives: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """How the turn ended: with a question, and with one that offers something the user may decline."""

    question: bool = False
    offer: bool = False

    @classmethod
    def by(cls, reply_text: str) -> "Asked":
        """Read the last sentence of a reply."""
        last = next(reversed(sentences(reply_text[-600:])), "")
        return cls(last.rstrip().endswith(ASKS), lexicon().offer.search(fold(last)) is not None)


def read(text: str, user_request: str | None, reply_text: str) -> Reaction:
    """Return the opinion in `text`; verdict None where it holds none, 0 where the user plainly goes on."""
    synthetic = is_synthetic(text)
    if synthetic is not None:
        return Reaction(None, f"written by the client: {synthetic}", flags=frozenset({"synthetic"}))
    body = without_quoted_blocks(clean(strip_envelope(text[:_READ_AT_MOST])))
    told, spoken = _apart(sentences(body))
    flags = {"injection"} if spoken else set[str]()
    # An order spread over more than a few sentences is still one.
    if not flags and speaks_to_judge(body):
        return Reaction(None, "an instruction to the judge", flags=frozenset({"injection"}))
    asked = Asked.by(reply_text)
    user_request = strip_envelope(user_request or "")
    found = [(sentence, cue_of(sentence, asked)) for sentence in told]
    cues = _resolved(found, asked, user_request, reply_text)
    verdict, rationale = weigh([cue for _, cue in cues])
    if verdict == 0 and not asked.question and lexicon().ack.fullmatch(fold(" ".join(told))):
        verdict, rationale = None, "acknowledged only"
    directives = tuple(sentence for sentence, cue in cues if cue in ("complain", "instruct"))
    if verdict in (None, 0) and user_request:
        if likeness(" ".join(told), user_request) >= REASKED_FROM:
            verdict, rationale = -1, "asked again"
            flags.add("reasked")
        elif not asked.question and _restates(told, user_request, reply_text):
            verdict, rationale, directives = -1, "said again with changes", tuple(told)
            flags.add("reasked")
    if verdict == 1 and "injection" in flags:
        verdict, rationale = None, "praise beside an instruction to the judge"
    return Reaction(verdict, rationale, directives, frozenset(flags))


def _apart(said: tuple[str, ...]) -> tuple[list[str], bool]:
    """Return the sentences that do not speak to the judge, and whether any does, alone or with neighbours."""
    told = [sentence for sentence in said if not speaks_to_judge(sentence)]
    for size in range(2, _ORDER_SPREAD_OVER + 1):
        if not speaks_to_judge(" ".join(told)):  # once a size: reading all of it is what costs
            break
        at = 0
        while at + size <= len(told):
            if speaks_to_judge(" ".join(told[at : at + size])):
                del told[at : at + size]
            else:
                at += 1
    return told, len(told) < len(said)


def _resolved(
    cues: list[tuple[str, Cue]], asked: Asked, user_request: str, reply_text: str
) -> list[tuple[str, Cue]]:
    """Decide what wishes and orders mean.

    A wish is a correction after a "no" or "actually", else an answer or a new task; an order to change
    something is a correction where it is about what was said before, else a new task.
    """
    words = lexicon()
    said_before = f"{user_request}\n{reply_text}"
    corrects = bool(cues) and not asked.offer and words.corrects.search(fold(cues[0][0])) is not None
    resolved: list[tuple[str, Cue]] = []
    for sentence, cue in cues:
        if corrects and (cue == "wish" or (cue == "reject" and words.wish.search(fold(sentence)))):
            cue = "instruct"
        elif cue == "symptom":
            cue = "reject" if not asked.question and is_about(sentence, said_before) else "none"
        elif cue == "order":
            cue = "onward" if asked.question else "instruct"
        elif cue == "wish" and asked.question:
            cue = "onward"
        elif cue == "wish":
            # Who wants again what the request wanted did not get it.
            cue = "instruct" if held_share(sentence, user_request) >= _WANTED_FROM else "none"
        elif not asked.question and (
            (cue in ("none", "question") and echoes(sentence, reply_text))
            or (cue == "none" and shouts_again(sentence, user_request))
            or (cue == "none" and other_number(sentence, reply_text))
            or (cue == "none" and denies(sentence, said_before))
            or (cue == "none" and states_otherwise(sentence, reply_text))
            or (cue in ("none", "question") and _OUTRAGE.search(sentence))
        ):
            cue = "reject"
        elif cue == "edit":
            cue = "instruct" if held_share(sentence, said_before) >= _ABOUT_FROM else "task"
        resolved.append((sentence, cue))
    if corrects and not asked.question and resolved[0][1] == "none" and _goes_on_after_no(resolved[0][0]):
        resolved[0] = (resolved[0][0], "instruct")
    return resolved


def _goes_on_after_no(sentence: str) -> bool:
    """Whether a "no" and what is right instead stand in one sentence: "No, until the 13th!"."""
    refused, *told = _HEAD.split(fold(sentence), maxsplit=1)
    return (
        lexicon().no.match(refused.strip()) is not None
        and any(character.isalnum() for piece in told for character in piece)
        and not any(OF_ONESELF.match(piece.strip()) for piece in told)
        and not sentence.rstrip().endswith(ASKS)
    )


def _restates(told: list[str], user_request: str, reply_text: str) -> bool:
    """Whether statements say the request and the reply over again in mostly their words: a correction."""
    said = " ".join(told)
    if said.rstrip().endswith(ASKS):
        return False
    return (
        held_share(said, f"{user_request}\n{reply_text}") >= _RESTATED_FROM
        and held_share(said, reply_text) >= _REPEATED_FROM
    )


def cue_of(sentence: str, asked: Asked) -> Cue:
    """Return what one sentence says; after a contrast ("thanks, but …") the later part counts."""
    words = lexicon()
    folded = words.mask.sub(" · ", fold(without_quotations(sentence[:_SENTENCE_AT_MOST])))
    question = folded.rstrip().endswith(ASKS)
    clauses = [clause for clause in words.but.split(folded) if clause.strip(" ,.·")]
    for clause in reversed(clauses):
        cue = _clause_cue(clause.strip(" ,"), words, asked, question=question)
        if cue not in ("none", "question", "describe"):
            return cue
    cue = _clause_cue(folded, words, asked, question=question)
    return "question" if cue == "none" and question else cue


def _clause_cue(clause: str, words: Lexicon, asked: Asked, *, question: bool) -> Cue:
    if asked.question and words.no.match(clause):
        return "onward"
    if asked.question and words.yes.match(clause):
        return "approve"
    if words.onward.search(clause):
        after = _opinion(words.onward.sub(" · ", clause), words, question=question)
        return "onward" if after in ("none", "thanks", "describe") else after
    opinion = _opinion(clause, words, question=question)
    if opinion in ("complain", "instruct", "reject", "approve", "describe") and _new_task(clause, words):
        if opinion in ("complain", "instruct"):
            return "order" if _orders(clause, words) else "edit"
        return "task"
    if opinion in ("reject", "instruct") and asked.offer and words.no.match(clause.split(" ")[0]):
        return "onward"
    if opinion == "none" and words.symptom.search(clause):
        return "symptom"
    if opinion == "none" and _orders(clause, words):
        return "order"
    if opinion == "none" and words.fragment.search(clause) and not words.task.search(clause):
        return "onward" if asked.question else "instruct"
    return "wish" if opinion == "none" and words.wish.search(clause) else opinion


def _orders(clause: str, words: Lexicon) -> bool:
    """Whether a clause orders something about the reply, with or without a reason after a comma."""
    order, *reason = clause.split(", ", maxsplit=1)
    return words.order.search(clause) is not None or (
        bool(reason) and not reason[0].endswith(ASKS) and words.order.search(f"{order}.") is not None
    )


def _new_task(clause: str, words: Lexicon) -> bool:
    return words.task.search(clause) is not None and words.refers.search(clause) is None


def _opinion(clause: str, words: Lexicon, *, question: bool) -> Cue:
    cues: tuple[tuple[Cue, re.Pattern[str]], ...] = (
        ("delight", words.delight),
        ("complain", words.complain),
        ("instruct", words.instruct),
        ("reject", words.reject),
        ("approve", words.approve),
        ("thanks", words.thanks),
        ("doubt", words.doubt),
        ("describe", words.describe),
    )
    negated = False
    for cue, pattern in cues:
        if cue in ("delight", "approve"):
            praise = [_negates(clause[: match.start()], words) for match in pattern.finditer(clause)]
            negated = negated or any(praise)
            found = not all(praise)
        else:
            found = pattern.search(clause) is not None
        if found:
            # "Is it good?" asks, it does not praise.
            return "none" if question and cue in ("approve", "describe", "doubt") else cue
    return "reject" if negated and not question else "none"


def _negates(before: str, words: Lexicon) -> bool:
    """Whether the two words before a praise, with no comma between, take it back."""
    near = " ".join(re.split(r"[,;:·.!]", before)[-1].split()[-2:])
    return words.negation.search(near) is not None


def weigh(cues: list[Cue]) -> tuple[Verdict | None, str]:
    """Return the verdict of a text from what its sentences say, with the cue that decided."""
    for cue in ("complain", "reject"):
        if cue in cues:
            return -1, cue
    for cue in ("delight", "approve"):
        if cue in cues:
            return 1, cue
    if "instruct" in cues:
        return -1, "instruct"
    if "doubt" in cues:
        return -1, "doubt"
    if "onward" in cues and "thanks" not in cues:
        return 0, "went on"
    for cue in ("thanks", "describe"):
        if cue in cues:
            return 1, cue
    if "onward" in cues or "question" in cues:
        return 0, "went on"
    return None, "no opinion found"
