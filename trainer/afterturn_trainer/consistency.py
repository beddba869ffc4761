"""Do engine and trainer mean the same model? Re-score turns under the adapter that sampled them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import torch
from safetensors.torch import load_file
from torch import Tensor

from afterturn_core.adapter_files import WEIGHTS
from afterturn_core.errors import RoundFailed
from afterturn_trainer.faults import Misaligned
from afterturn_trainer.load_turns import LoadedTurn
from afterturn_trainer.lora import Policy
from afterturn_trainer.streams import read_logprobs

MAX_GAP = 0.05  # nats per token: a geometric-mean ratio between 0.951 and 1.051
FAILING_SHARE = 0.5  # more turns than this that disagree are no accident


@dataclass(frozen=True)
class Agreement:
    """What re-scoring found.

    disagreeing: turns whose mean log-ratio trainer/engine is off by more than MAX_GAP (HisPO's
    geometric-mean ratio). unchecked: turns whose adapter is not at hand. noise: mean over the agreeing turns'
    tokens of |log-ratio|, nats: what rounding alone makes of a log-probability; 0 with nothing checked.
    hidden: last hidden states [T, D] of the turns that the parent itself sampled, to be used again.
    """

    checked: int
    disagreeing: frozenset[str]
    unchecked: frozenset[str]
    noise: float
    hidden: Mapping[str, Tensor] = field(default_factory=dict)


@torch.no_grad()
def agreement(policy: Policy, turns: Sequence[LoadedTurn], parent: str | None, chunk: int) -> Agreement:
    """Re-score whole prompts; call while the policy still is the parent adapter.

    Raises:
        RoundFailed: most turns disagree, so engine and trainer do not hold the same weights.
    """
    disagreeing: set[str] = set()
    unchecked: set[str] = set()
    noises: list[float] = []
    hidden: dict[str, Tensor] = {}
    checked = 0
    for turn in sorted(turns, key=lambda turn: turn.adapter):
        if turn.adapter not in (parent, "base") and turn.folder is None:
            unchecked.add(turn.turn_id)
            continue
        try:
            with _sampling_weights(policy, turn, parent):
                hidden_TD = policy.hidden(turn.prompt_ids, turn.reply_ids)
                own_T = read_logprobs(hidden_TD, turn.reply_ids, policy.head, 1, chunk).sampled_T
        except Misaligned:  # its adapter has other shapes: as good as gone, and no reason to stop the rest
            unchecked.add(turn.turn_id)
            continue
        gap_T = own_T.cpu() - torch.tensor(turn.logprobs)
        checked += 1
        if turn.adapter == (parent or "base"):
            hidden[turn.turn_id] = hidden_TD
        if abs(float(gap_T.mean())) > MAX_GAP:
            disagreeing.add(turn.turn_id)
        else:
            noises.append(float(gap_T.abs().mean()))
    if checked and len(disagreeing) > FAILING_SHARE * checked:
        raise RoundFailed(
            f"engine and trainer disagree on {len(disagreeing)} of {checked} turns by more than {MAX_GAP} "
            "nats a token: they do not hold the same model"
        )
    noise = fmean(noises) if noises else 0.0
    return Agreement(checked, frozenset(disagreeing), frozenset(unchecked), noise, hidden)


@contextmanager
def _sampling_weights(policy: Policy, turn: LoadedTurn, parent: str | None) -> Iterator[None]:
    """The policy as the adapter that sampled the turn."""
    if turn.adapter == "base":
        with policy.base():
            yield
    elif turn.adapter == parent or turn.folder is None:
        yield
    else:
        with wearing(policy, turn.folder):
            yield


@contextmanager
def wearing(policy: Policy, folder: Path) -> Iterator[None]:
    """The policy with another adapter's weights, for as long as the block lasts.

    Raises Misaligned when that adapter has other shapes.
    """
    weights = policy.trainable()
    stored = load_file(folder / WEIGHTS)
    named = {name: stored.get(name.replace(".default.", ".")) for name in weights}
    own: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in weights.items()}
    for name, other in named.items():
        if other is None or other.shape != weights[name].shape:
            raise Misaligned(f"{folder.name} has other weights than the adapter in training ({name})")
    try:
        _put(policy, {name: other for name, other in named.items() if other is not None})
        yield
    finally:
        _put(policy, own)


def _put(policy: Policy, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, weight in policy.trainable().items():
            weight.copy_(values[name])
