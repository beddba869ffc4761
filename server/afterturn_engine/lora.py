"""Linear layers whose LoRA update differs by row, for adapters mixed in one batch."""

from dataclasses import dataclass

from torch import Tensor, nn

from afterturn_engine.adapters import Adapter, Target


@dataclass(frozen=True)
class Segment:
    """Rows start..end of the flattened batch, sampled with one adapter."""

    start: int
    end: int
    adapter: Adapter


class Segments:
    """The running step's segments, shared by all layers; set by the one thread that runs the model."""

    def __init__(self) -> None:
        self.current: tuple[Segment, ...] = ()


class AdapterLinear(nn.Module):
    """A frozen linear layer plus, for each segment, `x @ down @ up` of its adapter.

    Rows of the base model are in no segment and cost nothing extra; rows of one adapter are contiguous, so
    a batch on a single adapter is one pair of matrix products.
    """

    def __init__(self, base: nn.Linear, name: str, segments: Segments) -> None:
        super().__init__()
        self.base = base
        self._name = name
        self._segments = segments

    def forward(self, x_1NI: Tensor) -> Tensor:
        y_1NO: Tensor = self.base(x_1NI)
        for segment in self._segments.current:
            factors = segment.adapter.factors.get(self._name)
            if factors is not None:
                rows = slice(segment.start, segment.end)
                y_1NO[0, rows].addmm_(x_1NI[0, rows] @ factors.down, factors.up)
        return y_1NO


def make_adaptable(decoder: nn.Module, prefix: str, segments: Segments) -> dict[str, Target]:
    """Replace the linear layers inside a decoder's blocks; returns them by their full name.

    `prefix` is the decoder's own name in the model ("model"), so that names match PEFT's.
    """
    targets: dict[str, Target] = {}
    for name, module in list(decoder.named_modules()):
        if not isinstance(module, nn.Linear):
            continue
        parent_name, _, attribute = name.rpartition(".")
        full_name = f"{prefix}.{name}"
        setattr(decoder.get_submodule(parent_name), attribute, AdapterLinear(module, full_name, segments))
        targets[full_name] = Target(module.in_features, module.out_features)
    return targets
