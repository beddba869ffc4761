"""How well a judge reads labelled next states: `python -m afterturn_extractor.scoring FILE.jsonl`."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from afterturn_extractor import rules
from afterturn_extractor.evidence import Evidence, Judgement, NextStatePart, ToolCall, Verdict

_LABELS: Final[tuple[Verdict, ...]] = (-1, 0, 1)


class Row(BaseModel):
    """One labelled next state, as a line of the file holds it; further keys are ignored."""

    model_config = ConfigDict(frozen=True)

    id: str
    source: str
    tier: Literal["core", "hard", "directive_only", "undecidable"]
    user_request: str | None
    assistant: str
    next_role: Literal["user", "tool"]
    next_state: str
    label: Verdict | None
    directive: bool | None

    @model_validator(mode="after")
    def _label_where_there_is_one(self) -> Self:
        if (self.label is None) != (self.tier == "undecidable"):
            raise ValueError("label is null in the tier undecidable, and nowhere else")
        return self

    def evidence(self) -> Evidence:
        """Return the row as a judge sees it; `<tool_call> name {…}` in the text is a call."""
        said, *written = self.assistant.split("<tool_call>")
        calls = [call.strip().partition(" ") for call in written]
        return Evidence(
            self.user_request,
            (),
            said.strip(),
            tuple(ToolCall(name, arguments) for name, _, arguments in calls),
            (NextStatePart(self.next_role, self.next_state),),
        )


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


class Report(BaseModel):
    """What `afterturn eval signals --json` prints; `undecidable` only if the file has such rows.

    `coverage` is the share of labelled rows with a verdict.
    """

    core: CoreScore
    hard: HardScore
    directive: DirectiveScore
    coverage: float
    undecidable: UndecidableScore | None = None


class BadRow(ValueError):
    """A line that is no labelled next state; the message names the line."""


def read_rows(path: Path) -> list[Row]:
    """Read a JSONL file; raises BadRow with the line's number, OSError if it cannot be read."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                rows.append(Row.model_validate_json(line))
            except ValidationError as error:
                raise BadRow(f"{path.name}:{number}: {error}") from error
    return rows


def score(rows: Iterable[Row], judge: Callable[[Evidence], Judgement]) -> Report:
    """Judge every row and compare; whatever `judge` raises is raised."""
    read = [(row, judge(row.evidence())) for row in rows]
    judged = [pair for pair in read if pair[0].tier != "undecidable"]
    unclear = [said for row, said in read if row.tier == "undecidable"]
    core = [pair for pair in judged if pair[0].tier == "core"]
    hard = [pair for pair in judged if pair[0].tier == "hard"]
    return Report(
        core=CoreScore(
            user=_verdicts(core, "user"),
            tool=_verdicts(core, "tool"),
            within_source_macro_f1=_within_source(core),
        ),
        hard=HardScore(user=_verdicts(hard, "user"), tool=_verdicts(hard, "tool")),
        directive=_directives(judged),
        coverage=_ratio(sum(said.verdict is not None for _, said in judged), len(judged)),
        undecidable=_undecidable(unclear) if unclear else None,
    )


def _undecidable(unclear: Sequence[Judgement]) -> UndecidableScore:
    silent = sum(said.verdict is None for said in unclear)
    return UndecidableScore(n=len(unclear), no_verdict=_ratio(silent, len(unclear)))


_Judged = Sequence[tuple[Row, Judgement]]
_Pairs = Sequence[tuple[Verdict, Verdict]]


def _pairs(judged: _Judged) -> list[tuple[Verdict, Verdict]]:
    return [
        (row.label, said.verdict if said.verdict is not None else 0)
        for row, said in judged
        if row.label is not None
    ]


def _verdicts(judged: _Judged, role: str) -> VerdictScore:
    pairs = _pairs([pair for pair in judged if pair[0].next_role == role])
    per_class = {f"{label:+d}" if label else "0": _class(pairs, label) for label in _LABELS}
    return VerdictScore(
        n=len(pairs),
        accuracy=_ratio(sum(truth == said for truth, said in pairs), len(pairs)),
        macro_f1=fmean(one.f1 for one in per_class.values()),
        per_class=per_class,
    )


def _within_source(judged: _Judged) -> float:
    """Mean over sources with two or more label classes of the macro-F1 over the classes present."""
    by_source: dict[str, list[tuple[Row, Judgement]]] = {}
    for row, said in judged:
        by_source.setdefault(row.source, []).append((row, said))
    figures = []
    for found in by_source.values():
        pairs = _pairs(found)
        present = sorted({truth for truth, _ in pairs})
        if len(present) > 1:
            figures.append(fmean(_class(pairs, label).f1 for label in present))
    return fmean(figures) if figures else 0.0


def _directives(judged: _Judged) -> DirectiveScore:
    marked = [(row.directive, bool(said.hints)) for row, said in judged if row.directive is not None]
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 0 done, 1 the file is missing or malformed."""
    parser = argparse.ArgumentParser(prog="afterturn_extractor.scoring", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(arguments)
    try:
        report = score(read_rows(options.file), rules.judge)
    except (OSError, BadRow) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(report.model_dump_json(exclude_none=True) + "\n" if options.json else _lines(report))
    return 0


def _lines(report: Report) -> str:
    told = [
        f"{tier} {role:4}  n {part.n:4d}  accuracy {part.accuracy:.3f}  macro-F1 {part.macro_f1:.3f}  "
        + "  ".join(f"{name} {one.f1:.3f}" for name, one in part.per_class.items())
        for tier, group in (("core", report.core), ("hard", report.hard))
        for role, part in (("user", group.user), ("tool", group.tool))
    ]
    hint = report.directive
    unclear = report.undecidable
    if unclear is not None:
        told.append(f"undecidable n {unclear.n}  no verdict {unclear.no_verdict:.3f}")
    return "\n".join(
        [
            *told,
            f"within source macro-F1 {report.core.within_source_macro_f1:.3f}",
            f"directive precision {hint.precision:.3f} recall {hint.recall:.3f} F1 {hint.f1:.3f}",
            f"coverage {report.coverage:.3f}",
            "",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
