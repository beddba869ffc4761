"""One round's update: streams filled once, a few clipped Adam steps, a report."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from afterturn_trainer.faults import NonFinite, NothingToLearn
from afterturn_trainer.lora import Policy
from afterturn_trainer.losses import Gathered, Streams, Terms, gather, turn_terms
from afterturn_trainer.moments import Moments, from_adam, into_adam
from afterturn_trainer.sample import Sample
from afterturn_trainer.settings import LearningSettings
from afterturn_trainer.streams import Anchor, Filled, fill, fill_anchor


@dataclass(frozen=True)
class StepMetrics:
    """One optimiser step. loss and its parts are means over the step's turns; kl is nats per token to the
    base model, before the step; grad_norm is before clipping; tokens carry loss."""

    step: int
    steps: int
    loss: float
    verdict: float
    hint: float
    anchor: float
    kl: float
    grad_norm: float
    turns: int
    tokens: int


@dataclass(frozen=True)
class UpdateReport:
    """What a round's update did. `unused` turns had nothing to learn from (no term could be filled);
    `unhinted` had hints of which none moved the teacher enough; `masked` is the mean share of tokens dropped
    by the stale mask; `moments` continue the optimiser in the next round."""

    metrics: tuple[StepMetrics, ...]
    moments: Moments
    turns: int
    tokens: int
    unused: tuple[str, ...]
    unhinted: tuple[str, ...]
    masked: float


OnProgress = Callable[[StepMetrics], None]


def run_update(
    policy: Policy,
    samples: Sequence[Sample],
    settings: LearningSettings,
    moments: Moments | None = None,
    on_progress: OnProgress | None = None,
    anchors: Sequence[Anchor] = (),
    known: Mapping[str, Tensor] | None = None,
) -> UpdateReport:
    """Train the policy in place on a round's samples.

    The weights on entry are π_old. The result does not depend on the order of `samples`. Raises
    NothingToLearn (no usable turn, or a first step whose gradients are all exactly zero) and NonFinite
    (loss, gradient or weight); the policy must then be thrown away, the live adapter is untouched. A later
    step can be without gradient by design, once every token has reached its clip: it is reported with
    grad_norm 0 and not taken. `known` are last hidden states [T, D] of the parent on some samples' own
    prompts, by turn, that need not be computed again.
    """
    ordered = sorted(samples, key=lambda sample: sample.turn_id)
    filled = [
        fill(policy, sample, settings, (known or {}).get(sample.turn_id))
        for sample in ordered
        if sample.trainable
    ]
    usable = [entry for entry in filled if _carries_loss(entry.streams)]
    if not usable:
        raise NothingToLearn("no turn of the round carries a loss")
    kept = [fill_anchor(policy, anchor, settings) for anchor in anchors] if settings.anchor_weight else []

    weights = policy.trainable()
    adam = torch.optim.Adam(
        weights.values(),
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_eps,
    )
    adam.zero_grad()
    if moments is not None:
        into_adam(adam, weights, moments)
    plan = _plan(len(usable), len(kept), settings)
    metrics: list[StepMetrics] = []
    for number, (turns, anchor_turns) in enumerate(plan, start=1):
        chosen = [usable[index].streams for index in turns]
        sums = _accumulate(policy, chosen, [kept[index] for index in anchor_turns], settings)
        norm = _apply(adam, weights, settings)
        if norm == 0.0 and not metrics:
            raise NothingToLearn("every gradient of the step is zero")
        metrics.append(sums.metrics(number, len(plan), norm, len(chosen)))
        if on_progress is not None:
            on_progress(metrics[-1])
    return _report(metrics, from_adam(adam, weights), ordered, filled, usable)


def _carries_loss(streams: Streams) -> bool:
    return bool(streams.verdict_T.any()) or bool(streams.hint_TK.any()) or streams.teacher_TD is not None


def _plan(turns: int, anchors: int, settings: LearningSettings) -> list[tuple[list[int], list[int]]]:
    """Indices of turns and anchors of every step: evenly sized minibatches, a new order each epoch."""
    order = random.Random(settings.seed)
    steps = math.ceil(turns / settings.minibatch)
    plan = []
    for _ in range(settings.epochs):
        shuffled = order.sample(range(turns), turns)
        for step in range(steps):
            anchor_turns = order.sample(range(anchors), min(anchors, settings.anchors_per_step))
            plan.append((shuffled[step::steps], anchor_turns))
    return plan


@dataclass
class _Sums:
    """What a step adds up while its gradients accumulate; kl is a sum over tokens, the others are means."""

    verdict: float = 0.0
    hint: float = 0.0
    own_kl: float = 0.0
    anchor: float = 0.0
    kl: float = 0.0
    tokens: int = 0

    def metrics(self, step: int, steps: int, grad_norm: float, turns: int) -> StepMetrics:
        return StepMetrics(
            step=step,
            steps=steps,
            loss=self.verdict + self.hint + self.own_kl + self.anchor,
            verdict=self.verdict,
            hint=self.hint,
            anchor=self.anchor,
            kl=self.kl / self.tokens,
            grad_norm=grad_norm,
            turns=turns,
            tokens=self.tokens,
        )


def _accumulate(
    policy: Policy, turns: Sequence[Streams], anchors: Sequence[Streams], settings: LearningSettings
) -> _Sums:
    """Add up the step's gradients turn by turn, so memory holds one turn's activations."""
    sums = _Sums()
    for streams in turns:
        terms, gathered = _backward(policy, streams, 1 / len(turns), settings)
        sums.verdict += float(terms.verdict) / len(turns)
        sums.hint += float(terms.hint) / len(turns)
        sums.own_kl += float(terms.kl) / len(turns)
        sums.kl += float(gathered.base_kl_T.detach()[streams.mask_T].sum())
        sums.tokens += int(streams.mask_T.sum())
    for streams in anchors:
        terms, _ = _backward(policy, streams, 1 / len(anchors), settings)
        sums.anchor += float(terms.kl) / len(anchors)
    return sums


def _backward(
    policy: Policy, streams: Streams, share: float, settings: LearningSettings
) -> tuple[Terms, Gathered]:
    """Gradients of one turn's share of the step's loss, added to what is there."""
    hidden_TD = policy.hidden(streams.prompt_ids, streams.reply_ids)
    gathered = gather(hidden_TD, streams, policy.head, settings.head_chunk)
    terms = turn_terms(gathered, streams, settings)
    loss = float(terms.total.detach())
    if not math.isfinite(loss):
        raise NonFinite(f"loss of turn {streams.turn_id} is {loss}")
    (terms.total * share).backward()  # type: ignore[no-untyped-call]
    return Terms(terms.verdict.detach(), terms.hint.detach(), terms.kl.detach()), gathered


def _apply(adam: torch.optim.Adam, weights: dict[str, nn.Parameter], settings: LearningSettings) -> float:
    """Check, clip and take one step; returns the gradient norm before clipping.

    Without any gradient there is no step: Adam would coast on its moments.
    """
    norm: Tensor = torch.nn.utils.clip_grad_norm_(weights.values(), settings.max_grad_norm)
    if not math.isfinite(float(norm)):
        raise NonFinite(f"gradient norm is {float(norm)}")
    if float(norm) == 0.0:
        return 0.0
    adam.step()
    adam.zero_grad(set_to_none=False)
    for name, weight in weights.items():
        if not torch.isfinite(weight).all():
            raise NonFinite(f"weight {name} is not finite after a step")
    return float(norm)


def _report(
    metrics: list[StepMetrics],
    moments: Moments,
    samples: Sequence[Sample],
    filled: Sequence[Filled],
    usable: Sequence[Filled],
) -> UpdateReport:
    used = {entry.streams.turn_id for entry in usable}
    hinted = {sample.turn_id for sample in samples if sample.teacher_prompts}
    return UpdateReport(
        metrics=tuple(metrics),
        moments=moments,
        turns=len(usable),
        tokens=sum(int(entry.streams.mask_T.sum()) for entry in usable),
        unused=tuple(sample.turn_id for sample in samples if sample.turn_id not in used),
        unhinted=tuple(
            entry.streams.turn_id
            for entry in filled
            if entry.hint is None and entry.streams.turn_id in hinted
        ),
        masked=sum(entry.masked for entry in filled) / len(filled),
    )
