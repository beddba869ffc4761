"""Whether votes that agree are right more often: the share of agreeing votes against accuracy."""

from collections.abc import Iterable
from dataclasses import dataclass

from afterturn_extractor.evaluation.judged import Judged


@dataclass(frozen=True, slots=True)
class Level:
    """The verdicts that had one share (0 to 1) of their votes behind them, and the share that was right."""

    share: float
    n: int
    accuracy: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Levels by rising share. `gap` is the mean distance of accuracy from share, weighted by rows (the
    expected calibration error with one bin a level)."""

    levels: tuple[Level, ...]

    @property
    def n(self) -> int:
        """How many verdicts were voted on."""
        return sum(level.n for level in self.levels)

    @property
    def gap(self) -> float:
        """0 to 1; 0 without any votes."""
        apart = sum(level.n * abs(level.accuracy - level.share) for level in self.levels)
        return apart / self.n if self.n else 0.0


def vote_share(one: Judged) -> float | None:
    """The share of votes for the verdict; None where no vote of a model decided it."""
    said = one.said
    if said.source != "judge" or said.verdict is None or not said.votes:
        return None
    return said.votes.count(said.verdict) / len(said.votes)


def reliability(judged: Iterable[Judged]) -> Reliability:
    """Of the core and hard rows whose verdict a model's votes decided."""
    right: dict[float, list[bool]] = {}
    for one in judged:
        share = vote_share(one)
        if share is not None and one.row.tier in ("core", "hard"):
            right.setdefault(share, []).append(one.is_right)
    return Reliability(
        tuple(Level(share, len(found), sum(found) / len(found)) for share, found in sorted(right.items()))
    )
