"""Confusion matrices: what was true against what was said."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from afterturn_extractor.evaluation.judged import Judged
from afterturn_extractor.evidence import Verdict

# None is a row that nobody can label, and a judge that gives no verdict.
MARKS: Final[tuple[Verdict | None, ...]] = (-1, 0, 1, None)


@dataclass(frozen=True, slots=True)
class Matrix:
    """How often a label met a verdict."""

    counts: Counter[tuple[Verdict | None, Verdict | None]]

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> "Matrix":
        """Count the pairs of label and verdict."""
        return cls(Counter((one.row.label, one.said.verdict) for one in judged))

    @property
    def n(self) -> int:
        """How many rows it counts."""
        return self.counts.total()

    @property
    def labels(self) -> tuple[Verdict | None, ...]:
        """The labels that occur."""
        present = {label for label, _ in self.counts}
        return tuple(mark for mark in MARKS if mark in present)

    def row(self, label: Verdict | None) -> tuple[int, ...]:
        """The counts of one label, one for each of `MARKS`."""
        return tuple(self.counts[label, verdict] for verdict in MARKS)
