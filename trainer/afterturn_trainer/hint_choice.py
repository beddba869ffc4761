"""Which of a turn's hints teaches: the one whose teacher still agrees most with the policy."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class HintScore:
    """How one hint changes the policy on the turn's own tokens.

    overlap: Σ_t |S_t ∩ top-k of the teacher at t|, tokens.
    effect: mean over t of Σ_{v∈S_t} w_v |ℓ_T(v) − ℓ_old(v)|, nats per token, unclipped.
    """

    overlap: int
    effect: float


def support_weights(old_TK: Tensor) -> Tensor:
    """w [T, K]: softmax over the support of the parent's log-probabilities."""
    return torch.softmax(old_TK, dim=-1)


def score_hint(
    support_TK: Tensor, old_TK: Tensor, teacher_TK: Tensor, teacher_top_TK: Tensor, mask_T: Tensor
) -> HintScore:
    """Score a hint from the parent's support S_t, both models' log-probabilities on it, and the teacher's
    own top-k ids. Only positions that carry loss count."""
    hits_TK = (support_TK.unsqueeze(-1) == teacher_top_TK.unsqueeze(-2)).any(-1)
    moved_T = (support_weights(old_TK) * (teacher_TK - old_TK).abs()).sum(-1)
    return HintScore(overlap=int(hits_TK[mask_T].sum()), effect=float(moved_T[mask_T].mean()))


def choose_hint(scores: Sequence[HintScore], min_effect: float) -> int | None:
    """Index of the hint with the greatest overlap among those with effect above `min_effect`; the first wins
    a tie; None when no hint changes enough (one that changes nothing would otherwise always win)."""
    able = [index for index, score in enumerate(scores) if score.effect > min_effect]
    return max(able, key=lambda index: (scores[index].overlap, -index)) if able else None
