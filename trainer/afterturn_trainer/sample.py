"""A sample: what one turn and its signal hand to the trainer, as plain values; never stored."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from afterturn_trainer.faults import Misaligned

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """One turn ready for the loss.

    prompt_ids: the request's own token ids [P]; hints never appear here.
    reply_ids: the ids the engine sampled [T], the end-of-turn token included if it was sampled.
    engine_logprobs: the engine's raw log-probability of each [T], nats.
    loss_mask: False for tokens the policy did not choose (grammar-forced, client-inserted) [T].
    advantage: (verdict minus baseline) times the verdict's weight for +-1 turns, None without a verdict term.
    teacher_prompts: the prompt with one hint each, shortest hint first; empty without hints.
    stale: sampled too many versions back; the verdict term is left out, hints stay.
    """

    turn_id: str
    prompt_ids: Ids
    reply_ids: Ids
    engine_logprobs: tuple[float, ...]
    loss_mask: tuple[bool, ...]
    verdict: Literal[-1, 1] | None = None
    advantage: float | None = None
    teacher_prompts: tuple[Ids, ...] = ()
    stale: bool = False

    def __post_init__(self) -> None:
        """Raises Misaligned for anything that would silently train on the wrong tokens."""
        tokens = len(self.reply_ids)
        if not self.prompt_ids or any(not prompt for prompt in self.teacher_prompts):
            raise Misaligned(f"turn {self.turn_id}: empty prompt")
        if not tokens:
            raise Misaligned(f"turn {self.turn_id}: no sampled token")
        if len(self.engine_logprobs) != tokens or len(self.loss_mask) != tokens:
            raise Misaligned(
                f"turn {self.turn_id}: {tokens} sampled ids, {len(self.engine_logprobs)} log-probabilities, "
                f"{len(self.loss_mask)} mask values"
            )
        if not any(self.loss_mask):
            raise Misaligned(f"turn {self.turn_id}: no token carries loss")
        if any(not math.isfinite(value) or value > 1e-4 for value in self.engine_logprobs):
            raise Misaligned(f"turn {self.turn_id}: a log-probability is not finite or above 0")
        if (self.verdict is None) != (self.advantage is None):
            raise Misaligned(f"turn {self.turn_id}: verdict and advantage must come together")
        if self.advantage is not None and not math.isfinite(self.advantage):
            raise Misaligned(f"turn {self.turn_id}: advantage is not finite")

    @property
    def has_verdict_term(self) -> bool:
        return self.advantage is not None and self.advantage != 0.0 and not self.stale

    @property
    def trainable(self) -> bool:
        """Some term can be filled from this sample."""
        return self.has_verdict_term or bool(self.teacher_prompts)


def make_sample(
    turn_id: str,
    prompt_ids: Sequence[int],
    reply_ids: Sequence[int],
    engine_logprobs: Sequence[float],
    *,
    verdict: int | None = None,
    baseline: float = 0.0,
    weight: float = 1.0,
    teacher_prompts: Sequence[Sequence[int]] = (),
    loss_mask: Sequence[bool] | None = None,
    stale: bool = False,
) -> Sample:
    """Build a sample from a turn's and a signal's plain values; a verdict of 0 or None fills no verdict term.

    `weight` makes the advantage smaller and nothing else: hints count in full. Raises Misaligned when arrays
    do not fit together (they are never padded) and ValueError for a verdict outside {-1, 0, +1} or a weight
    outside (0, 1].
    """
    if verdict not in (-1, 0, 1, None):
        raise ValueError(f"turn {turn_id}: verdict {verdict!r} is none of -1, 0, 1, None")
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"turn {turn_id}: weight {weight!r} is not above 0 and at most 1")
    sign: Literal[-1, 1] | None = 1 if verdict == 1 else -1 if verdict == -1 else None
    return Sample(
        turn_id=turn_id,
        prompt_ids=tuple(prompt_ids),
        reply_ids=tuple(reply_ids),
        engine_logprobs=tuple(engine_logprobs),
        loss_mask=tuple(loss_mask) if loss_mask is not None else (True,) * len(reply_ids),
        verdict=sign,
        advantage=None if sign is None else (sign - baseline) * weight,
        teacher_prompts=tuple(tuple(prompt) for prompt in teacher_prompts),
        stale=stale,
    )


def verdict_baseline(earlier: Sequence[int], window: int = 64, shrink: int = 16) -> float:
    """Σr/(n + shrink) over the agent's last `window` +-1 verdicts before the round, newest last.

    Shrunk towards 0, so a first round of one-sided verdicts still pushes in its direction; never a
    statistic of the round's own samples (a group of one would always cancel itself).
    """
    if any(verdict not in (-1, 1) for verdict in earlier):
        raise ValueError("a baseline is made of verdicts of -1 and +1 only")
    recent = earlier[-window:]
    return sum(recent) / (len(recent) + shrink)


def cut_middle(prompt_ids: Sequence[int], limit: int, mark_ids: Sequence[int]) -> tuple[Ids, int]:
    """(prompt of at most `limit` ids, number of ids cut): the middle gives way to `mark_ids`.

    A quarter of the room keeps the head (system prompt), the rest the most recent history.
    Raises ValueError when not even the mark fits.
    """
    if len(prompt_ids) <= limit:
        return tuple(prompt_ids), 0
    room = limit - len(mark_ids)
    if room < 2:
        raise ValueError(f"no room for a prompt in {limit} tokens")
    head = max(1, room // 4)
    tail = room - head
    kept = (*prompt_ids[:head], *mark_ids, *prompt_ids[-tail:])
    return kept, len(prompt_ids) - head - tail
