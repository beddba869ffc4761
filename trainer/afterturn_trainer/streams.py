"""Fill a turn's streams from the policy as it stands at the start of the round."""

# ruff: noqa: N815  (axis suffixes on fields: mask_T is one value a token)

from dataclasses import dataclass

import torch
from torch import Tensor

from afterturn_trainer.hint_choice import HintScore, choose_hint, score_hint, support_weights
from afterturn_trainer.lora import Policy
from afterturn_trainer.losses import Head, Streams
from afterturn_trainer.sample import Ids, Sample
from afterturn_trainer.settings import LearningSettings


@dataclass(frozen=True)
class Anchor:
    """A neutral prompt and the base model's own reply to it: what an update should leave as it is."""

    name: str
    prompt_ids: Ids
    reply_ids: Ids


@dataclass(frozen=True)
class Filled:
    """Streams of a sample, with what was decided on the way: the chosen hint's index (None: none moved the
    teacher enough, or there was none), each hint's score, and the share of tokens the stale mask dropped."""

    streams: Streams
    hint: int | None
    scores: tuple[HintScore, ...]
    masked: float


@dataclass(frozen=True)
class Read:
    """Log-probabilities of one model on a reply: sampled_T of the sampled ids, on_TK of given ids
    (or of the own top-k), top_TK the own top-k ids."""

    sampled_T: Tensor
    on_TK: Tensor
    top_TK: Tensor


def read_logprobs(
    hidden_TD: Tensor, reply_ids: Ids, head: Head, top_k: int, chunk: int, support_TK: Tensor | None = None
) -> Read:
    """Log-softmax over the vocabulary in chunks of positions; only what is asked for is kept."""
    tokens_T1 = torch.tensor(reply_ids, device=hidden_TD.device).unsqueeze(-1)
    sampled, on, top = [], [], []
    for start in range(0, hidden_TD.shape[0], chunk):
        here = slice(start, start + chunk)
        logprobs_CV = torch.log_softmax(head(hidden_TD[here]).float(), dim=-1)
        top_CK = logprobs_CV.topk(top_k, dim=-1).indices
        sampled.append(logprobs_CV.gather(-1, tokens_T1[here]).squeeze(-1))
        on.append(logprobs_CV.gather(-1, top_CK if support_TK is None else support_TK[here]))
        top.append(top_CK)
    return Read(torch.cat(sampled), torch.cat(on), torch.cat(top))


def stale_weights(old_T: Tensor, engine_T: Tensor, low: float, high: float) -> Tensor:
    """c_t = π_old(y_t)/π_engine(y_t), 0 outside [low, high]: a two-sided mask (GLM-5)."""
    ratio_T = (old_T - engine_T).exp()
    return torch.where((ratio_T >= low) & (ratio_T <= high), ratio_T, torch.zeros_like(ratio_T))


@torch.no_grad()
def fill(
    policy: Policy, sample: Sample, settings: LearningSettings, known_TD: Tensor | None = None
) -> Filled:
    """Streams of one sample under the objective; call before the round's first step, when π_θ = π_old.

    Hints reach the teacher's prompts only; the policy is read under `sample.prompt_ids` alone. `known_TD` are
    its last hidden states there, where they were computed before.
    """
    w_rl, w_opd = settings.weights()
    k, chunk = settings.top_k, settings.head_chunk
    old_TD = policy.hidden(sample.prompt_ids, sample.reply_ids) if known_TD is None else known_TD
    with policy.base():
        base_TD = policy.hidden(sample.prompt_ids, sample.reply_ids)
    old = read_logprobs(old_TD, sample.reply_ids, policy.head, k, chunk)
    mask_T = torch.tensor(sample.loss_mask, device=old_TD.device)

    verdict_T = torch.zeros_like(old.sampled_T)
    masked = 0.0
    if w_rl and sample.has_verdict_term and sample.advantage is not None:
        engine_T = torch.tensor(sample.engine_logprobs, device=old_TD.device)
        stale_T = stale_weights(old.sampled_T, engine_T, settings.stale_low, settings.stale_high)
        verdict_T = stale_T * sample.advantage * mask_T
        masked = float((stale_T[mask_T] == 0).float().mean())

    scores: list[HintScore] = []
    teachers: list[tuple[Tensor, Read]] = []
    for prompt in sample.teacher_prompts[: settings.max_hints] if w_opd else ():
        teacher_TD = policy.hidden(prompt, sample.reply_ids)
        read = read_logprobs(teacher_TD, sample.reply_ids, policy.head, k, chunk, old.top_TK)
        scores.append(score_hint(old.top_TK, old.on_TK, read.on_TK, read.top_TK, mask_T))
        teachers.append((teacher_TD, read))
    chosen = choose_hint(scores, settings.min_hint_effect)

    hint_TK = torch.zeros_like(old.on_TK)
    teacher_hidden_TD = None
    if chosen is not None:
        teacher_TD, read = teachers[chosen]
        gain_TK = (read.on_TK - old.on_TK).clamp(-settings.advantage_clip, settings.advantage_clip)
        hint_TK = support_weights(old.on_TK) * gain_TK * mask_T.unsqueeze(-1)
        teacher_hidden_TD = teacher_TD if settings.distillation == "reverse_kl" else None
    streams = Streams(
        turn_id=sample.turn_id,
        prompt_ids=sample.prompt_ids,
        reply_ids=sample.reply_ids,
        mask_T=mask_T,
        old_T=old.sampled_T,
        verdict_T=verdict_T,
        support_TK=old.top_TK,
        old_TK=old.on_TK,
        hint_TK=hint_TK,
        base_TD=base_TD,
        teacher_TD=teacher_hidden_TD,
        kl_weight=settings.beta,
    )
    return Filled(streams=streams, hint=chosen, scores=tuple(scores), masked=masked)


@torch.no_grad()
def fill_anchor(policy: Policy, anchor: Anchor, settings: LearningSettings) -> Streams:
    """Streams of a neutral prompt: nothing but KL(π_θ ‖ π_0) on the base model's own reply."""
    with policy.base():
        base_TD = policy.hidden(anchor.prompt_ids, anchor.reply_ids)
    zeros_T = torch.zeros(len(anchor.reply_ids), device=base_TD.device)
    zeros_TK = zeros_T.unsqueeze(-1)
    return Streams(
        turn_id=anchor.name,
        prompt_ids=anchor.prompt_ids,
        reply_ids=anchor.reply_ids,
        mask_T=torch.ones_like(zeros_T, dtype=torch.bool),
        old_T=zeros_T,
        verdict_T=zeros_T,
        support_TK=torch.zeros_like(zeros_TK, dtype=torch.long),
        old_TK=zeros_TK,
        hint_TK=zeros_TK,
        base_TD=base_TD,
        teacher_TD=None,
        kl_weight=settings.anchor_weight,
    )
