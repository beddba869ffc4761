"""All knobs of learning in one frozen object; nothing below reads the environment."""

from dataclasses import dataclass, replace
from typing import Literal

Objective = Literal["hybrid", "rl", "opd"]
Distillation = Literal["topk", "reverse_kl"]


@dataclass(frozen=True)
class LearningSettings:
    """What a round does with its samples.

    Defaults are what did best in the few runs of `bench/results/learning_offline.jsonl`
    (SmolLM2-135M-Instruct, persona `short`, 8 turns a round, 36 held-out questions of which the base
    satisfies none; two seeds, so a starting point and no proof): 29 and 31 satisfied after 32 turns. A
    w_rl of 0.05 learned faster in its first round than 0.2 (19 against 11, one seed), presumably because
    a push against a whole criticised reply also takes its topic away; beta 0.1 lost what was learned once
    replies pleased (22 back to 11), 0.05 part of it (28 to 23). Anchors have not been measured. Formulas
    and their sources are in `losses`.

    Objective and terms
        objective: which streams are filled: `hybrid` (both terms), `rl` (verdict only), `opd` (hints only).
        w_rl, w_opd: weights of the two terms (dimensionless). `rl` and `opd` alone always weigh 1.
        beta: weight of the exact KL to the base model on the turns' own tokens (nats).
        anchor_weight: weight of the same KL on neutral prompts; 0 leaves the anchors out.
        anchors_per_step: neutral prompts in each optimiser step.
        length_norm: L0, tokens; every per-turn sum is divided by it, never by the turn's own length.

    Verdict term
        clip_low, clip_high: bounds of the ratio to the parent (asymmetric clip, DAPO's "clip-higher").
        stale_low, stale_high: two-sided mask on pi_old/pi_engine (GLM-5).
        negative_stop: delta, nats per token; a -1 turn already this far below the parent stops contributing.
        baseline_window: earlier +-1 turns that make up the baseline; baseline_shrink pulls it to 0.
        stale_versions: tau; turns sampled more versions back lose the verdict term.

    Hints
        distillation: `topk` (hindsight distillation on k tokens) or `reverse_kl` (full vocabulary).
        top_k: size of the support S_t; advantage_clip: C, nats, bound of each log-ratio teacher/parent.
        min_hint_effect: nats per token; a hint that moves the teacher less is not chosen.
        max_hints: candidates looked at per turn (a teacher pass each).

    Optimiser
        learning_rate, adam_beta1, adam_beta2, adam_eps: Adam without weight decay; moments live on.
        epochs: passes over the round's turns; minibatch: turns per optimiser step.
        max_grad_norm: clip of the global gradient norm.

    Adapter
        lora_rank, lora_alpha: on every attention and MLP projection, dropout 0.
        seed: of the adapter's initial weights and of the order of turns.
        max_train_tokens: prompt + reply; older history is cut in the middle, the reply never.
        head_chunk: positions whose vocabulary logits exist at once.
    """

    objective: Objective = "hybrid"
    w_rl: float = 0.05
    w_opd: float = 1.0
    beta: float = 0.02
    anchor_weight: float = 0.0
    anchors_per_step: int = 4
    length_norm: int = 256
    clip_low: float = 0.8
    clip_high: float = 1.28
    stale_low: float = 0.5
    stale_high: float = 2.0
    negative_stop: float = 0.5
    baseline_window: int = 64
    baseline_shrink: int = 16
    stale_versions: int = 2
    distillation: Distillation = "topk"
    top_k: int = 4
    advantage_clip: float = 1.0
    min_hint_effect: float = 0.02
    max_hints: int = 3
    learning_rate: float = 2e-4
    adam_beta1: float = 0.9
    adam_beta2: float = 0.95
    adam_eps: float = 1e-8
    epochs: int = 2
    minibatch: int = 4
    max_grad_norm: float = 1.0
    lora_rank: int = 16
    lora_alpha: int = 32
    seed: int = 0
    max_train_tokens: int = 4096
    head_chunk: int = 128

    def weights(self) -> tuple[float, float]:
        """(verdict weight, hint weight) of the objective."""
        if self.objective == "rl":
            return 1.0, 0.0
        if self.objective == "opd":
            return 0.0, 1.0
        return self.w_rl, self.w_opd

    def with_(self, **changes: object) -> "LearningSettings":
        """A copy with some knobs changed; an unknown name is a TypeError."""
        return replace(self, **changes)  # type: ignore[arg-type]
