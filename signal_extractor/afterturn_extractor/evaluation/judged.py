"""Rows with what a judge said about them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from afterturn_extractor.evaluation.rows import Row
from afterturn_extractor.evidence import Judgement
from afterturn_extractor.judging import Judge


@dataclass(frozen=True, slots=True)
class Judged:
    """One row and its judgement."""

    row: Row
    said: Judgement

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the label; no verdict counts as 0."""
        return (self.said.verdict or 0) == self.row.label


def judge_rows(
    rows: Sequence[Row], judge: Judge, *, at_once: int = 1, done: Callable[[], None] = lambda: None
) -> list[Judged]:
    """Judge every row, `at_once` of them in threads; `done` is called in this thread after each, in order.

    Whatever `judge` raises is raised, and no further row is begun.
    """
    read = []
    with ThreadPoolExecutor(at_once) as threads:
        try:
            for row, said in zip(rows, threads.map(judge, [row.evidence() for row in rows]), strict=True):
                read.append(Judged(row, said))
                done()
        finally:
            threads.shutdown(cancel_futures=True)
    return read
