"""Measure a candidate for the gate, cheapest check first; the engine is asked as any client would ask it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from afterturn_core.engine_client import EngineClient
from afterturn_trainer.gate import (
    BoundedReport,
    GateLimits,
    GateReport,
    KeptReport,
    RealReport,
    decide,
    judge_drift,
    judge_kept,
    judge_real,
    largest_move,
)
from afterturn_trainer.greedy import Asked, greedy_replies
from afterturn_trainer.margin import judge_margins, turn_margin
from afterturn_trainer.probes import MAX_NEW_TOKENS, ProbeReply, ProbeReport, load_probes, report
from afterturn_trainer.yardstick import Shift

OnProgress = Callable[[float], None]


@dataclass(frozen=True)
class Served:
    """A model as the engine knows it; `identity` is its weights' checksum, `base` for none."""

    name: str
    identity: str


@dataclass(frozen=True)
class TryOut:
    """Where and against what a candidate is measured. noise: nats, between engine and trainer."""

    client: EngineClient
    model_hash: str
    base: Served
    live: Served
    candidate: Served
    memory: Path
    concurrency: int
    noise: float
    limits: GateLimits = field(default_factory=GateLimits)


def try_out(
    trial: TryOut,
    bounded: BoundedReport,
    shifts: Sequence[Shift],
    held_out: Sequence[Shift],
    progress: OnProgress,
) -> GateReport:
    """The gate's report. `shifts` are the round's own turns, `held_out` judged turns that were never trained;
    `progress` gets a share and may raise to stop."""
    real = _real(trial, shifts)
    learned = judge_margins(
        [
            turn_margin(shift.passage.verdict, shift.new_T, shift.live_T)
            for shift in held_out
            if shift.passage.verdict is not None
        ]
    )
    drift = judge_drift([*shifts, *held_out], trial.limits)
    early = decide(real, learned, drift, None, bounded)
    if not early.passed:
        return early
    return decide(real, learned, drift, _kept(trial, progress), bounded)


def _real(trial: TryOut, shifts: Sequence[Shift]) -> RealReport:
    shift, position, trainer = largest_move(shifts)
    passage = shift.passage
    ids = [*passage.prompt_ids, *passage.reply_ids[: position + 1]]
    new, live = (
        trial.client.prompt_logprobs(name, ids)[-1] for name in (trial.candidate.name, trial.live.name)
    )
    engine = float("nan") if new is None or live is None else new - live
    return judge_real(passage.turn_id, position, trainer, engine, trial.noise, trial.limits)


def _kept(trial: TryOut, progress: OnProgress) -> KeptReport:
    # Base and live are remembered from earlier rounds: only the candidate is asked as a rule.
    base = probe(trial, trial.base, lambda share: progress(share / 3))
    live = probe(trial, trial.live, lambda share: progress((1 + share) / 3))
    new = probe(trial, trial.candidate, lambda share: progress((2 + share) / 3))
    return judge_kept(base, live, new, trial.limits)


def probe(trial: TryOut, served: Served, progress: OnProgress) -> ProbeReport:
    """Ask every probe of one adapter; what was asked of it before is remembered."""
    probes = load_probes()
    asked = Asked(
        model=served.name,
        identity=served.identity,
        model_hash=trial.model_hash,
        prompts=tuple(probe.prompt for probe in probes),
        max_tokens=MAX_NEW_TOKENS,
    )
    replies = greedy_replies(trial.client, asked, trial.memory, trial.concurrency, progress)
    return report(probes, [ProbeReply(reply.text, reply.finished) for reply in replies])
