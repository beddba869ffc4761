"""The rows on which a judge is furthest from the label."""

from collections.abc import Iterable

from afterturn_extractor.evaluation.judged import Judged
from afterturn_extractor.evaluation.reliability import vote_share


def worst(judged: Iterable[Judged], at_most: int) -> list[Judged]:
    """Wrong verdicts, the worst first: the opposite of the label before half of it, core rows before hard
    ones, many agreeing votes before few. No verdict is no claim, so never among them, but a verdict on a row
    that nobody can decide is one."""
    wrong = [one for one in judged if one.row.tier != "directive_only" and _is_wrong(one)]
    return sorted(wrong, key=_rank)[:at_most]


def _is_wrong(one: Judged) -> bool:
    return one.said.verdict is not None and one.said.verdict != one.row.label


def _rank(one: Judged) -> tuple[int, bool, float, str]:
    apart = abs((one.said.verdict or 0) - (one.row.label or 0))
    return -apart, one.row.tier != "core", -(vote_share(one) or 0.0), one.row.id
