"""The figures of a judge on labelled next states."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from pydantic import BaseModel

from afterturn_extractor.evaluation.judged import Judged
from afterturn_extractor.evidence import Verdict

LABELS: Final[tuple[Verdict, ...]] = (-1, 0, 1)


class ClassScore(BaseModel):
    """One label's figures; `n` is how many rows truly have it."""

    precision: float
    recall: float
    f1: float
    n: int


class VerdictScore(BaseModel):
    """`macro_f1` is over the classes -1, 0 and +1; no verdict counts as 0."""

    n: int
    accuracy: float
    macro_f1: float
    per_class: dict[str, ClassScore]


class CoreScore(BaseModel):
    """The rows whose label can be supported from the row."""

    user: VerdictScore
    tool: VerdictScore
    within_source_macro_f1: float


class HardScore(BaseModel):
    """The rows whose next state shows little of the label."""

    user: VerdictScore
    tool: VerdictScore


class DirectiveScore(BaseModel):
    """Hints against rows annotated with whether the next state says how the turn should have been."""

    precision: float
    recall: float
    f1: float


class UndecidableScore(BaseModel):
    """Rows that nobody could label: `no_verdict` is the share on which the judge says so too."""

    n: int
    no_verdict: float


class Scores(BaseModel):
    """What `afterturn eval signals --json` prints; `undecidable` only if the file has such rows.

    `coverage` is the share of labelled rows with a verdict.
    """

    core: CoreScore
    hard: HardScore
    directive: DirectiveScore
    coverage: float
    undecidable: UndecidableScore | None = None


class SourceScore(BaseModel):
    """Rows that belong together: `macro_f1` is over the label classes present among them."""

    n: int
    accuracy: float
    macro_f1: float
    coverage: float
    classes: int


_Pairs = Sequence[tuple[Verdict, Verdict]]


def score(judged: Sequence[Judged]) -> Scores:
    """Compare every judgement with its row's label."""
    labelled = [one for one in judged if one.row.tier != "undecidable"]
    unclear = [one for one in judged if one.row.tier == "undecidable"]
    core = [one for one in judged if one.row.tier == "core"]
    hard = [one for one in judged if one.row.tier == "hard"]
    return Scores(
        core=CoreScore(
            user=_verdicts(core, "user"),
            tool=_verdicts(core, "tool"),
            within_source_macro_f1=_within_source(core),
        ),
        hard=HardScore(user=_verdicts(hard, "user"), tool=_verdicts(hard, "tool")),
        directive=_directives(labelled),
        coverage=coverage(labelled),
        undecidable=UndecidableScore(n=len(unclear), no_verdict=1 - coverage(unclear)) if unclear else None,
    )


def score_source(judged: Sequence[Judged]) -> SourceScore:
    """The figures of rows that belong together; rows without a label are left out."""
    labelled = [one for one in judged if one.row.label is not None]
    pairs = _pairs(labelled)
    present = sorted({truth for truth, _ in pairs})
    return SourceScore(
        n=len(pairs),
        accuracy=_ratio(sum(one.is_right for one in labelled), len(labelled)),
        macro_f1=fmean(_class(pairs, label).f1 for label in present) if present else 0.0,
        coverage=coverage(labelled),
        classes=len(present),
    )


def by_source(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """The rows of each source, sources in name order."""
    found: dict[str, list[Judged]] = {}
    for one in sorted(judged, key=lambda one: one.row.source):
        found.setdefault(one.row.source, []).append(one)
    return found


def coverage(judged: Sequence[Judged]) -> float:
    """The share of rows with a verdict."""
    return _ratio(sum(one.said.verdict is not None for one in judged), len(judged))


def _pairs(judged: Sequence[Judged]) -> list[tuple[Verdict, Verdict]]:
    return [(one.row.label, one.said.verdict or 0) for one in judged if one.row.label is not None]


def _verdicts(judged: Sequence[Judged], role: str) -> VerdictScore:
    pairs = _pairs([one for one in judged if one.row.next_role == role])
    per_class = {f"{label:+d}" if label else "0": _class(pairs, label) for label in LABELS}
    return VerdictScore(
        n=len(pairs),
        accuracy=_ratio(sum(truth == said for truth, said in pairs), len(pairs)),
        macro_f1=fmean(one.f1 for one in per_class.values()),
        per_class=per_class,
    )


def _within_source(judged: Sequence[Judged]) -> float:
    """Mean over sources with two or more label classes of the macro-F1 over the classes present."""
    figures = [score_source(found) for found in by_source(judged).values()]
    several = [one.macro_f1 for one in figures if one.classes > 1]
    return fmean(several) if several else 0.0


def _directives(judged: Sequence[Judged]) -> DirectiveScore:
    marked = [(one.row.directive, bool(one.said.hints)) for one in judged if one.row.directive is not None]
    hits = sum(truth and said for truth, said in marked)
    precision = _ratio(hits, sum(said for _, said in marked))
    recall = _ratio(hits, sum(truth for truth, _ in marked))
    return DirectiveScore(precision=precision, recall=recall, f1=_f1(precision, recall))


def _class(pairs: _Pairs, label: Verdict) -> ClassScore:
    hits = sum(truth == said == label for truth, said in pairs)
    n = sum(truth == label for truth, _ in pairs)
    precision = _ratio(hits, sum(said == label for _, said in pairs))
    recall = _ratio(hits, n)
    return ClassScore(precision=precision, recall=recall, f1=_f1(precision, recall), n=n)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
