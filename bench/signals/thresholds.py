"""The numeric thresholds of the rules, and a small search for better ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from afterturn_extractor import contradiction, reaction, rules, tool_results
from afterturn_extractor.evaluation.judged import judge_rows
from afterturn_extractor.evaluation.rows import Row
from afterturn_extractor.evaluation.score import score_source


@dataclass(frozen=True)
class Threshold:
    """A constant of a module of the rules, with the values that the search tries."""

    module: ModuleType
    name: str
    tried: tuple[float, ...]

    @property
    def now(self) -> float:
        """Its value."""
        return float(getattr(self.module, self.name))


_SHARES: Final = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
THRESHOLDS: Final = {
    "user": (
        Threshold(reaction, "REASKED_FROM", _SHARES),
        Threshold(reaction, "_RESTATED_FROM", _SHARES),
        Threshold(reaction, "_REPEATED_FROM", _SHARES),
        Threshold(reaction, "_ABOUT_FROM", _SHARES),
        Threshold(reaction, "_WANTED_FROM", _SHARES),
        Threshold(contradiction, "_SHORT", (4, 6, 8, 12)),
        Threshold(contradiction, "_ECHO_AT_MOST", (1, 2, 3, 5)),
        Threshold(contradiction, "_STATED_IN", (6, 8, 10, 14)),
        Threshold(contradiction, "_STATEMENT_AT_MOST", (8, 12, 16, 24)),
    ),
    "tool": (
        Threshold(tool_results, "_OFF_TOPIC_TO", (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)),
        Threshold(tool_results, "_FEWEST_HITS", (1, 2, 3, 4)),
    ),
}


@dataclass(frozen=True)
class Found:
    """The values that the search would take, where they differ from the rules' own."""

    values: dict[str, float]
    by_threshold: tuple[tuple[Threshold, float], ...]


def macro_f1(rows: Sequence[Row]) -> float:
    """Of the rules as they are now, over the classes that the rows have; no verdict counts as 0."""
    return score_source(judge_rows(rows, rules.judge)).macro_f1


def search(rows: Sequence[Row], role: str) -> Found:
    """One threshold after the other is set to the value that is best on `rows`, the others as found so far;
    the rules' own value stays unless another is strictly better."""
    chosen: list[tuple[Threshold, float]] = []
    best = macro_f1(rows)
    for threshold in THRESHOLDS[role]:
        taken = threshold.now
        for value in threshold.tried:
            if value == threshold.now:
                continue
            with using([*chosen, (threshold, value)]):
                figure = macro_f1(rows)
            if figure > best:
                best, taken = figure, value
        if taken != threshold.now:
            chosen.append((threshold, taken))
    names = {f"{one.module.__name__.rsplit('.', 1)[-1]}.{one.name}": value for one, value in chosen}
    return Found(names, tuple(chosen))


@contextmanager
def using(values: Sequence[tuple[Threshold, float]]) -> Iterator[None]:
    """The rules with other thresholds; theirs are put back."""
    before = [(threshold, getattr(threshold.module, threshold.name)) for threshold, _ in values]
    try:
        for threshold, value in values:
            setattr(threshold.module, threshold.name, value)
        yield
    finally:
        for threshold, own in before:
            setattr(threshold.module, threshold.name, own)
