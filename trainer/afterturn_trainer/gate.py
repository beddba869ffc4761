"""Whether a candidate goes live: pure decisions over what was measured, and a report a person can read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from afterturn_trainer.margin import MarginReport
from afterturn_trainer.metrics import json_record
from afterturn_trainer.probes import ProbeReport
from afterturn_trainer.yardstick import Shift

Outcome = Literal["passed", "refused"]


@dataclass(frozen=True)
class GateLimits:
    """What the gate lets through.

    real_abs, real_share: how far the engine's difference may lie from the trainer's, in nats or as a share of
    it, whichever is more. smallest_move: nats; an adapter that moves no token by more does nothing.
    solved_drop: share of probes that may be lost against the live adapter, and in all against the base model:
    many rounds that each lose a little must not add up. odd_rise: by how much the shares
    of empty, unfinished and looping probe replies may rise. drift: mean KL(new ‖ live) on recent turns, nats
    per token.
    """

    real_abs: float = 1e-2
    real_share: float = 0.1
    smallest_move: float = 1e-3
    solved_drop: float = 0.05
    odd_rise: float = 0.15
    drift: float = 1.0


@dataclass(frozen=True)
class RealReport:
    """At the token that moved most: its log-probability's change in the trainer and in the engine, nats."""

    outcome: Outcome
    turn_id: str
    position: int
    trainer: float
    engine: float
    tolerance: float


@dataclass(frozen=True)
class KeptReport:
    """Shares over the probes: the base model, the live adapter before and the candidate after."""

    outcome: Outcome
    probes: int
    solved_base: float
    solved_before: float
    solved_after: float
    empty_before: float
    empty_after: float
    unfinished_before: float
    unfinished_after: float
    looping_before: float
    looping_after: float
    by_kind_after: dict[str, float]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class DriftReport:
    """Mean KL(new ‖ live) over the tokens of recent turns, nats per token."""

    outcome: Outcome
    kl: float
    limit: float
    turns: int


@dataclass(frozen=True)
class BoundedReport:
    """From whom the round's signals come (turns), the largest share among them, and what it may be."""

    outcome: Outcome
    sources: dict[str, int]
    largest: float
    limit: float


@dataclass(frozen=True)
class GateReport:
    """The whole decision; checks after the first refusal are left out, since they cost serving time."""

    passed: bool
    reasons: tuple[str, ...]
    real: RealReport | None = None
    learned: MarginReport | None = None
    drift: DriftReport | None = None
    kept: KeptReport | None = None
    bounded: BoundedReport | None = None

    def as_json(self) -> dict[str, object]:
        """What is stored with the round and the adapter."""
        return json_record(self)


def largest_move(shifts: Sequence[Shift]) -> tuple[Shift, int, float]:
    """(passage, position, ℓ_new − ℓ_live) where |ℓ_new − ℓ_live| is largest."""
    shift = max(shifts, key=lambda shift: abs(shift.new_T[shift.largest] - shift.live_T[shift.largest]))
    position = shift.largest
    return shift, position, shift.new_T[position] - shift.live_T[position]


def judge_real(
    turn_id: str, position: int, trainer: float, engine: float, noise: float, limits: GateLimits
) -> RealReport:
    """Does the engine show the difference that the trainer made? `noise` is the rounding between the two in
    one log-probability; a difference of differences carries it four times."""
    rounding = max(limits.real_abs, limits.real_share * abs(trainer), 4 * noise)
    tolerance = min(rounding, 0.5 * abs(trainer))  # an engine that shows no change is always refused
    close = math.isfinite(engine) and abs(engine - trainer) <= tolerance
    moved = abs(trainer) >= limits.smallest_move
    return RealReport(
        "passed" if close and moved else "refused", turn_id, position, trainer, engine, tolerance
    )


def judge_drift(shifts: Sequence[Shift], limits: GateLimits) -> DriftReport:
    """Is the new policy still near the live one on what was just talked about?"""
    kl = fmean(value for shift in shifts for value in shift.kl_T)
    near = math.isfinite(kl) and kl <= limits.drift
    return DriftReport("passed" if near else "refused", kl, limits.drift, len(shifts))


def judge_kept(base: ProbeReport, live: ProbeReport, new: ProbeReport, limits: GateLimits) -> KeptReport:
    """Can it still do what it could? Brevity is no fault: it may be what was asked for."""
    reasons = []
    if live.solved - new.solved > limits.solved_drop + 1e-9:
        reasons.append(f"probes solved fell from {live.solved:.3f} to {new.solved:.3f}")
    if base.solved - new.solved > limits.solved_drop + 1e-9:
        reasons.append(f"probes solved fell to {new.solved:.3f}, the base model solves {base.solved:.3f}")
    for name, before, after in (
        ("empty", live.empty, new.empty),
        ("unfinished", live.unfinished, new.unfinished),
        ("looping", live.looping, new.looping),
    ):
        if after - before > limits.odd_rise + 1e-9:
            reasons.append(f"{name} probe replies rose from {before:.3f} to {after:.3f}")
    return KeptReport(
        outcome="refused" if reasons else "passed",
        probes=new.probes,
        solved_base=base.solved,
        solved_before=live.solved,
        solved_after=new.solved,
        empty_before=live.empty,
        empty_after=new.empty,
        unfinished_before=live.unfinished,
        unfinished_after=new.unfinished,
        looping_before=live.looping,
        looping_after=new.looping,
        by_kind_after=new.by_kind,
        reasons=tuple(reasons),
    )


def judge_bounded(sources: Mapping[str, int], limit: float) -> BoundedReport:
    """Does one of several users and tools make up too much of the round? One that is alone does not, and a
    limit that so few could not keep is none."""
    largest = max(sources.values(), default=0) / max(1, sum(sources.values()))
    over = len(sources) > 1 and len(sources) * limit >= 1 and largest > limit + 1e-9
    return BoundedReport("refused" if over else "passed", dict(sources), largest, limit)


def decide(
    real: RealReport | None,
    learned: MarginReport | None,
    drift: DriftReport | None,
    kept: KeptReport | None,
    bounded: BoundedReport | None = None,
) -> GateReport:
    """Put the parts together; any refusal refuses."""
    reasons: list[str] = []
    if real is not None and real.outcome == "refused":
        reasons.append(
            f"the engine shows a change of {real.engine:.4f} nats where the trainer made {real.trainer:.4f}"
        )
    if learned is not None and learned.outcome == "refused" and learned.high is not None:
        reasons.append(
            f"held-out turns moved against their verdicts: the margin's upper bound is {learned.high:.4f}"
        )
    if drift is not None and drift.outcome == "refused":
        reasons.append(f"KL to the live adapter is {drift.kl:.3f} nats a token, over {drift.limit}")
    if kept is not None:
        reasons += kept.reasons
    if bounded is not None and bounded.outcome == "refused":
        reasons.append(f"one source makes up {bounded.largest:.2f} of the round, over {bounded.limit}")
    return GateReport(not reasons, tuple(reasons), real, learned, drift, kept, bounded)
