"""One judgement from all sources, by weight: explicit feedback, outcomes, a judge model, the rules."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from afterturn_extractor import hints
from afterturn_extractor.evidence import HINTS_KEPT, Hint, Judgement, NextStatePart, Source, Verdict
from afterturn_extractor.reaction import read

ORDER: Final[tuple[Source, ...]] = ("explicit", "outcome", "judge", "rules")
GOOD_FROM: Final = 0.7
BAD_TO: Final = 0.3


class MalformedFeedback(ValueError):
    """A feedback part without the kind or value its verdict is read from."""


def from_value(value: float) -> Verdict:
    """Return the verdict of a score or outcome in 0..1: ≥ 0.7 is +1, ≤ 0.3 is -1, between is 0."""
    if not 0.0 <= value <= 1.0:
        raise MalformedFeedback(f"value {value} is outside 0..1")
    return 1 if value >= GOOD_FROM else -1 if value <= BAD_TO else 0


def from_feedback(part: NextStatePart) -> Judgement:
    """Return what one feedback or outcome part says; raises MalformedFeedback where it says nothing readable.

    A thumb's value is ±1. A correction and a preferred reply imply -1, and the correction is a hint; the
    preferred text is a demonstration, not a hint.
    """
    source: Source = "outcome" if part.kind == "outcome" or part.role == "outcome" else "explicit"
    kind = part.kind or part.role
    verdict: Verdict | None
    told: tuple[Hint, ...] = ()
    match kind:
        case "thumb":
            if part.value not in (-1, 1):
                raise MalformedFeedback(f"a thumb is -1 or 1, not {part.value}")
            verdict = 1 if part.value == 1 else -1
        case "score" | "outcome":
            if part.value is None:
                raise MalformedFeedback(f"{kind} without a value")
            verdict = from_value(part.value)
        case "correction" | "preferred":
            verdict = -1
        case "comment":
            verdict = read(part.text, None, "").verdict
        case _:
            raise MalformedFeedback(f"unknown kind of feedback: {kind}")
    if kind == "correction":
        told = hints.from_correction(part.text)
    elif kind != "preferred" and part.text and verdict != 1:
        told = hints.from_sentences(read(part.text, None, "").directives, source)
    weight = part.weight if source == "outcome" else 1.0
    return Judgement(verdict, source, (verdict,), kind, told, weight=weight)


def fuse(parts: Sequence[Judgement]) -> Judgement:
    """Return the judgement of the weightiest source that has a verdict; its latest part wins.

    Parts are in order of arrival. The weight is the deciding part's. Hints come from every part that does not
    contradict the verdict. The flag "disagreement" is set where another part has the opposite verdict. Raises
    ValueError for no parts.
    """
    if not parts:
        raise ValueError("nothing to fuse")
    ranked = [part for source in ORDER for part in reversed(parts) if part.source == source]
    deciding = next((part for part in ranked if part.verdict is not None), ranked[0])
    opposed = [part for part in parts if _contradict(part.verdict, deciding.verdict)]
    told = _hints(
        hint for part in ranked if not _contradict(part.verdict, deciding.verdict) for hint in part.hints
    )
    flags = frozenset[str]().union(*(part.flags for part in parts))
    return Judgement(
        deciding.verdict,
        deciding.source,
        deciding.votes,
        deciding.rationale,
        told,
        flags | {"disagreement"} if opposed else flags,
        next((part.judged_by for part in parts if part.judged_by), None),
        deciding.weight,
    )


def with_fixes(judgement: Judgement, fixes: Iterable[NextStatePart]) -> Judgement:
    """The judgement with how the turn's calls were put right later as the last of its hints; of a good turn
    there is nothing to put right."""
    if judgement.verdict == 1:
        return judgement
    told = (Hint(part.text, "outcome") for part in fixes)
    return replace(judgement, hints=_hints([*judgement.hints, *told]))


def _contradict(one: Verdict | None, other: Verdict | None) -> bool:
    return one is not None and other is not None and one * other == -1


def _hints(told: Iterable[Hint]) -> tuple[Hint, ...]:
    """The first three distinct hints, shortest first."""
    distinct: dict[str, Hint] = {}
    for hint in told:
        distinct.setdefault(hint.text.casefold(), hint)
    kept = list(distinct.values())[:HINTS_KEPT]
    return tuple(sorted(kept, key=lambda hint: len(hint.text)))
