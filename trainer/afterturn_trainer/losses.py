"""Per-token streams under one loss.

An objective only fills streams; the loss never asks which objective it serves. Shapes: T reply tokens,
C tokens of a chunk, K support tokens, D hidden size, V vocabulary. All logarithms are natural, all
log-probabilities raw (temperature 1) and over the full vocabulary.
"""

# ruff: noqa: N815  (axis suffixes on fields: mask_T is one value a token)

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from afterturn_trainer.sample import Ids
from afterturn_trainer.settings import LearningSettings

Head = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Streams:
    """What one turn (or one neutral anchor) contributes, fixed for the whole round.

    mask_T: bool, tokens that carry loss.
    old_T: log pi_old(y_t). verdict_T: c_t · A, 0 where there is no verdict term.
    support_TK: ids of S_t; old_TK: log pi_old on them; hint_TK: A_v = w_v Δ_v, 0 without a hint.
    base_TD: last hidden states of pi_0; teacher_TD: of the hinted parent, only for `reverse_kl`.
    kl_weight: of KL(pi_theta ‖ pi_0) on this turn.
    """

    turn_id: str
    prompt_ids: Ids
    reply_ids: Ids
    mask_T: Tensor
    old_T: Tensor
    verdict_T: Tensor
    support_TK: Tensor
    old_TK: Tensor
    hint_TK: Tensor
    base_TD: Tensor
    teacher_TD: Tensor | None
    kl_weight: float


@dataclass(frozen=True)
class Gathered:
    """The policy's figures on one turn, with gradient: sampled_T log pi(y_t), support_TK log pi on S_t,
    base_kl_T = KL(pi_theta ‖ pi_0) and teacher_kl_T = KL(pi_theta ‖ pi_T) (zeros without a teacher), nats."""

    sampled_T: Tensor
    support_TK: Tensor
    base_kl_T: Tensor
    teacher_kl_T: Tensor


@dataclass(frozen=True)
class Terms:
    """The weighted parts of one turn's loss; `total` is what is minimised."""

    verdict: Tensor
    hint: Tensor
    kl: Tensor

    @property
    def total(self) -> Tensor:
        return self.verdict + self.hint + self.kl


def exact_kl(logits_CV: Tensor, other_CV: Tensor) -> Tensor:
    """KL(p ‖ q) per position [C], nats: Σ_v p(v) (log p(v) − log q(v)), both from unnormalised logits."""
    logprobs_CV = torch.log_softmax(logits_CV, dim=-1)
    return (logprobs_CV.exp() * (logprobs_CV - torch.log_softmax(other_CV, dim=-1))).sum(-1)


def gather(hidden_TD: Tensor, streams: Streams, head: Head, chunk: int) -> Gathered:
    """Read everything the loss needs off the policy's hidden states, `chunk` positions at a time.

    No more than [chunk, V] logits of each model exist at once, in the backward pass too: a chunk's logits
    are computed again instead of kept.
    """
    tokens_T = torch.tensor(streams.reply_ids, device=hidden_TD.device)

    def read(hidden_CD: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        here = slice(start, start + hidden_CD.shape[0])
        logits_CV = head(hidden_CD).float()
        logprobs_CV = torch.log_softmax(logits_CV, dim=-1)
        sampled_C = logprobs_CV.gather(-1, tokens_T[here].unsqueeze(-1)).squeeze(-1)
        support_CK = logprobs_CV.gather(-1, streams.support_TK[here])
        with torch.no_grad():
            base_CV = head(streams.base_TD[here]).float()
            teacher_CV = None if streams.teacher_TD is None else head(streams.teacher_TD[here]).float()
        teacher_C = torch.zeros_like(sampled_C) if teacher_CV is None else exact_kl(logits_CV, teacher_CV)
        return sampled_C, support_CK, exact_kl(logits_CV, base_CV), teacher_C

    chunks = []
    for start in range(0, hidden_TD.shape[0], chunk):
        hidden_CD = hidden_TD[start : start + chunk]
        chunks.append(
            checkpoint(read, hidden_CD, start, use_reentrant=False)
            if torch.is_grad_enabled()
            else read(hidden_CD, start)
        )
    sampled, support, base_kl, teacher_kl = zip(*chunks, strict=True)
    return Gathered(torch.cat(sampled), torch.cat(support), torch.cat(base_kl), torch.cat(teacher_kl))


def clipped(ratio: Tensor, advantage: Tensor, settings: LearningSettings) -> Tensor:
    """max(−Aρ, −A clip(ρ, low, high)): PPO's pessimistic bound with DAPO's asymmetric clip, as a cost."""
    bounded = ratio.clamp(settings.clip_low, settings.clip_high)
    return torch.maximum(-advantage * ratio, -advantage * bounded)


def verdict_term(sampled_T: Tensor, streams: Streams, settings: LearningSettings) -> Tensor:
    """L_RL = −(1/L₀) Σ_t c_t min(ρ_t A, clip(ρ_t) A), ρ_t = π_θ(y_t)/π_old(y_t).

    A negative turn whose mean log π_old − log π_θ over its loss tokens exceeds `negative_stop` gives 0: the
    policy has left it already, and pushing on only destroys (ARLArena).
    """
    moved_T = (streams.old_T - sampled_T).detach()[streams.mask_T]
    if bool(streams.verdict_T.sum() < 0) and float(moved_T.mean()) > settings.negative_stop:
        return sampled_T.sum() * 0.0
    ratio_T = (sampled_T - streams.old_T).exp()
    cost_T = clipped(ratio_T, streams.verdict_T, settings)
    return cost_T[streams.mask_T].sum() / settings.length_norm


def hint_term(gathered: Gathered, streams: Streams, settings: LearningSettings) -> Tensor:
    """L_OPD = (1/L₀) Σ_t Σ_{v∈S_t} max(−A_v ρ_v, −A_v clip(ρ_v)), ρ_v a ratio of global probabilities.

    With a full-vocabulary teacher instead: (1/L₀) Σ_t KL(π_θ ‖ π_T)_t.
    """
    if streams.teacher_TD is not None:
        return gathered.teacher_kl_T[streams.mask_T].sum() / settings.length_norm
    ratio_TK = (gathered.support_TK - streams.old_TK).exp()
    cost_TK = clipped(ratio_TK, streams.hint_TK, settings)
    return cost_TK[streams.mask_T].sum() / settings.length_norm


def turn_terms(gathered: Gathered, streams: Streams, settings: LearningSettings) -> Terms:
    """w_RL L_RL + w_OPD L_OPD + β (1/L₀) Σ_t KL(π_θ ‖ π_0)_t of one turn.

    Divided by the constant L₀, never by the turn's own length, so that a token weighs the same in a short
    and in a long reply.
    """
    w_rl, w_opd = settings.weights()
    kl = gathered.base_kl_T[streams.mask_T].sum() / settings.length_norm
    return Terms(
        verdict=w_rl * verdict_term(gathered.sampled_T, streams, settings),
        hint=w_opd * hint_term(gathered, streams, settings),
        kl=streams.kl_weight * kl,
    )
