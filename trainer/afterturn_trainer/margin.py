"""Gate 2, learned: did held-out judged turns move in the direction of their verdicts?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

MIN_TURNS = 16


@dataclass(frozen=True)
class MarginReport:
    """Mean of r·(ℓ_new − ℓ_live) per token over held-out turns with its 90 % interval, nats per token.

    outcome: `not enough data` below 16 turns (it does not decide), `refused` when the whole interval lies
    below 0, else `passed`. low and high are None with fewer than two turns, mean with none.
    """

    turns: int
    mean: float | None
    low: float | None
    high: float | None
    outcome: Literal["passed", "refused", "not enough data"]


def turn_margin(verdict: int, new_T: Sequence[float], live_T: Sequence[float]) -> float:
    """r · mean_t(ℓ_new(y_t) − ℓ_live(y_t)) of one turn. Raises ValueError when the arrays do not align."""
    if verdict not in (-1, 1):
        raise ValueError("a margin needs a verdict of -1 or +1")
    if len(new_T) != len(live_T) or not new_T:
        raise ValueError(f"{len(new_T)} new and {len(live_T)} live log-probabilities do not align")
    return verdict * fmean(new - live for new, live in zip(new_T, live_T, strict=True))


def judge_margins(margins: Sequence[float], min_turns: int = MIN_TURNS) -> MarginReport:
    """The gate's decision from one margin per held-out turn. Raises ValueError for a non-finite margin."""
    if any(not math.isfinite(margin) for margin in margins):
        raise ValueError("a margin is not finite")
    turns = len(margins)
    if turns < 2:
        return MarginReport(turns, fmean(margins) if margins else None, None, None, "not enough data")
    mean = fmean(margins)
    reach = student_quantile(0.95, turns - 1) * stdev(margins) / math.sqrt(turns)
    low, high = mean - reach, mean + reach
    if turns < min_turns:
        return MarginReport(turns, mean, low, high, "not enough data")
    return MarginReport(turns, mean, low, high, "refused" if high < 0 else "passed")


def student_quantile(level: float, freedom: int) -> float:
    """Quantile of Student's t: exact for 1 and 2 degrees of freedom, else the expansion around the normal
    quantile (Abramowitz & Stegun 26.7.5), within 0.01 for 3 and more at 95 %."""
    if freedom == 1:
        return math.tan(math.pi * (level - 0.5))
    if freedom == 2:
        return (2 * level - 1) * math.sqrt(2 / (4 * level * (1 - level)))
    z, n = NormalDist().inv_cdf(level), float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
