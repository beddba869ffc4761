"""Adam's moments as a value: they live with the live adapter, so a restart continues where it stopped."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from afterturn_trainer.faults import Misaligned, NonFinite


@dataclass(frozen=True)
class Moments:
    """First and second moment of every LoRA weight, and the number of steps taken."""

    step: int
    first: dict[str, Tensor]
    second: dict[str, Tensor]


def into_adam(adam: torch.optim.Adam, weights: dict[str, nn.Parameter], moments: Moments) -> None:
    """Continue an optimiser from stored moments. Raises Misaligned when they belong to other weights."""
    if set(moments.first) != set(weights) or set(moments.second) != set(weights):
        raise Misaligned("optimiser moments belong to another adapter's weights")
    for name, weight in weights.items():
        first, second = moments.first[name], moments.second[name]
        if first.shape != weight.shape or second.shape != weight.shape:
            raise Misaligned(f"optimiser moments of {name} have another shape")
        if not (torch.isfinite(first).all() and torch.isfinite(second).all()):
            raise NonFinite(f"optimiser moments of {name} are not finite")
        adam.state[weight] = {
            "step": torch.tensor(float(moments.step)),
            "exp_avg": first.to(weight.device, copy=True),
            "exp_avg_sq": second.to(weight.device, copy=True),
        }


def from_adam(adam: torch.optim.Adam, weights: dict[str, nn.Parameter]) -> Moments:
    """Copy the optimiser's state out."""
    states = {name: adam.state[weight] for name, weight in weights.items()}
    steps = {int(state["step"]) for state in states.values()}
    if len(steps) != 1:
        raise Misaligned(f"weights took different numbers of steps: {sorted(steps)}")
    return Moments(
        step=steps.pop(),
        first={name: state["exp_avg"].detach().cpu().clone() for name, state in states.items()},
        second={name: state["exp_avg_sq"].detach().cpu().clone() for name, state in states.items()},
    )


def save_moments(moments: Moments, path: Path) -> None:
    """Write one safetensors file; publishing it atomically is the caller's business."""
    tensors = {f"first.{name}": value.contiguous() for name, value in moments.first.items()}
    tensors |= {f"second.{name}": value.contiguous() for name, value in moments.second.items()}
    save_file({**tensors, "step": torch.tensor([moments.step])}, path)


def load_moments(path: Path) -> Moments:
    """Read what `save_moments` wrote. Raises Misaligned for a file of another kind."""
    tensors = load_file(path)
    if "step" not in tensors:
        raise Misaligned(f"{path.name} holds no optimiser moments")

    def under(prefix: str) -> dict[str, Tensor]:
        named = ((name, value) for name, value in tensors.items() if name.startswith(prefix))
        return {name.removeprefix(prefix): value for name, value in named}

    return Moments(step=int(tensors["step"].item()), first=under("first."), second=under("second."))
