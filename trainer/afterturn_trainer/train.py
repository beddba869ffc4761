"""From a round's turns to new weights, with what the gate needs to compare them with the live ones."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

from torch import Tensor

from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import RoundFailed
from afterturn_core.settings import Settings
from afterturn_trainer.adapter_folder import moments_in, verify
from afterturn_trainer.anchors import load_anchors
from afterturn_trainer.base import Base, load_base
from afterturn_trainer.consistency import Agreement, agreement
from afterturn_trainer.lease import Heartbeat
from afterturn_trainer.load_turns import LoadedTurn, RoundInput
from afterturn_trainer.lora import Policy, attach
from afterturn_trainer.metrics import RoundMetrics
from afterturn_trainer.moments import Moments
from afterturn_trainer.selection import of_this_model, select, shorten
from afterturn_trainer.settings import LearningSettings
from afterturn_trainer.streams import Anchor
from afterturn_trainer.update import StepMetrics, run_update
from afterturn_trainer.yardstick import Passage, Shift, read, shifts

MEMORY = "gate"  # folder under the data directory for replies that need not be asked twice
TRAINED = 0.5  # share of a round's progress that is over when the update is
SEEDS_PER_INSTALL = 1000  # one for each round, so that rounds differ and runs repeat


@dataclass(frozen=True)
class Trained:
    """A policy after its update; `own` and `held_out` compare it with the live adapter, `noise` is the gap
    between engine and trainer in nats."""

    policy: Policy
    moments: Moments
    model_hash: str
    noise: float
    own: tuple[Shift, ...]
    held_out: tuple[Shift, ...]


def train(
    taken: RoundInput,
    settings: Settings,
    number: int,
    client: EngineClient,
    beat: Heartbeat,
    metrics: RoundMetrics,
) -> Trained:
    """Load, check, select, update. `number` tells this round from the agent's others; the engine behind
    `client` is only asked for neutral replies of the base model.

    Raises:
        RoundFailed, LearningFault, AdapterError: with the reason in plain words; nothing was published.
    """
    started = time.monotonic()
    learning = learning_settings(taken, number)
    base = load_base(settings)
    policy, moments = _parent(taken, base, learning)
    metrics.seconds["load"] = round(time.monotonic() - started, 2)
    beat.report(0.1, metrics.as_json())

    turns, counts = of_this_model(taken.turns, base.hash)
    parent = None if taken.parent is None else taken.parent.name
    agreed = agreement(policy, turns, parent, learning.head_chunk)
    chosen = select(taken, turns, counts, agreed, base.tokenizer, learning)
    metrics.selected(chosen.samples, chosen.counts, agreed)
    own = [Passage(s.turn_id, s.prompt_ids, s.reply_ids, s.verdict) for s in chosen.samples]
    held_out = _held_out([turn for turn in taken.held_out if turn.model_hash == base.hash], learning)
    before = read(policy, [*own, *held_out], _already_read(own, turns, agreed))
    beat.report(0.2, metrics.as_json())

    def stepped(step: StepMetrics) -> None:
        metrics.stepped(step)
        beat.report(0.2 + (TRAINED - 0.2) * step.step / step.steps, metrics.as_json())

    anchors = _anchors(learning, base.hash, settings, client, beat)
    known = {passage.turn_id: hidden_TD for passage, hidden_TD in zip(own, before, strict=False)}
    report = run_update(policy, chosen.samples, learning, moments, stepped, anchors, known)
    metrics.updated(report)
    moved = shifts(policy, [*own, *held_out], before, learning.head_chunk)
    metrics.seconds["train"] = round(time.monotonic() - started - metrics.seconds["load"], 2)
    beat.report(TRAINED, metrics.as_json())
    return Trained(
        policy=policy,
        moments=report.moments,
        model_hash=base.hash,
        noise=agreed.noise,
        own=tuple(moved[: len(own)]),
        held_out=tuple(moved[len(own) :]),
    )


def _parent(taken: RoundInput, base: Base, learning: LearningSettings) -> tuple[Policy, Moments | None]:
    """The policy as the round's parent, with the optimiser where it stopped."""
    if taken.parent is None:
        return attach(base.model, learning, None), None
    if verify(taken.parent.folder).model_hash != base.hash:
        raise RoundFailed(
            f"{taken.parent.name} was trained on another base model: roll back to 0, the base, to go on"
        )
    return attach(base.model, learning, taken.parent.folder), moments_in(taken.parent.folder)


def _already_read(
    own: Sequence[Passage], turns: Sequence[LoadedTurn], agreed: Agreement
) -> dict[str, Tensor]:
    """What checking the turns computed on the way, but for those whose prompt is cut for training."""
    stored = {turn.turn_id: turn.prompt_ids for turn in turns}
    whole = {passage.turn_id for passage in own if passage.prompt_ids == stored[passage.turn_id]}
    return {turn_id: hidden_TD for turn_id, hidden_TD in agreed.hidden.items() if turn_id in whole}


def learning_settings(taken: RoundInput, number: int) -> LearningSettings:
    """The knobs of this round: the defaults, changed by what was stored with it.

    Raises:
        RoundFailed: an objective this trainer does not know.
    """
    if taken.objective not in ("hybrid", "rl", "opd"):
        raise RoundFailed(f"objective {taken.objective} is not known to this trainer")
    known = {field.name for field in fields(LearningSettings)}
    changes = {name: value for name, value in taken.settings.items() if name in known}
    learning = LearningSettings().with_(**{**changes, "objective": taken.objective})
    return learning.with_(seed=SEEDS_PER_INSTALL * learning.seed + number)


def _anchors(
    learning: LearningSettings, model_hash: str, settings: Settings, client: EngineClient, beat: Heartbeat
) -> tuple[Anchor, ...]:
    if not learning.anchor_weight:
        return ()
    return load_anchors(
        client, model_hash, settings.data_dir / MEMORY, asking_at_once(settings), lambda _: beat.check()
    )


def asking_at_once(settings: Settings) -> int:
    """How many questions of ours an engine answers at once: three quarters of its slots, so that a user never
    waits for one."""
    return max(1, settings.engine_max_sequences * 3 // 4)


def _held_out(turns: Sequence[LoadedTurn], learning: LearningSettings) -> list[Passage]:
    """Held-out turns as passages, shortened as the round's own, but without a mark: nothing is trained."""
    return [
        Passage(turn.turn_id, shorten(turn, (), learning.max_train_tokens)[0], turn.reply_ids, turn.verdict)
        for turn in turns
        if turn.reply_ids
    ]
