"""What a round reports of itself while it runs and when it ends."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from afterturn_trainer.consistency import Agreement
from afterturn_trainer.sample import Sample
from afterturn_trainer.selection import Counts
from afterturn_trainer.update import StepMetrics, UpdateReport

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass
class RoundMetrics:
    """loss, verdict, hint, grad_norm: one value an optimiser step. kl: nats per token to the base model at
    the last step. reward_mean: over the round's +-1 verdicts, None without any. tokens: that carried loss.
    engine_gap: mean |trainer − engine| log-probability, nats. unused, unhinted: turns with nothing to learn
    from, and turns none of whose hints moved the teacher. seconds: of each phase."""

    loss: list[float] = field(default_factory=list)
    verdict: list[float] = field(default_factory=list)
    hint: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    kl: float | None = None
    reward_mean: float | None = None
    turns: int = 0
    tokens: int = 0
    unused: int = 0
    unhinted: int = 0
    masked: float = 0.0
    checked: int = 0
    engine_gap: float = 0.0
    left_out: Counts = field(default_factory=Counts)
    seconds: dict[str, float] = field(default_factory=dict)

    def selected(self, samples: Sequence[Sample], counts: Counts, agreed: Agreement) -> None:
        """The round's turns are known."""
        verdicts = [sample.verdict for sample in samples if sample.verdict is not None]
        self.reward_mean = fmean(verdicts) if verdicts else None
        self.left_out, self.checked, self.engine_gap = counts, agreed.checked, agreed.noise

    def stepped(self, step: StepMetrics) -> None:
        """One optimiser step is done."""
        self.loss.append(step.loss)
        self.verdict.append(step.verdict)
        self.hint.append(step.hint)
        self.grad_norm.append(step.grad_norm)
        self.kl = step.kl

    def updated(self, report: UpdateReport) -> None:
        """The update is done."""
        self.turns, self.tokens, self.masked = report.turns, report.tokens, report.masked
        self.unused, self.unhinted = len(report.unused), len(report.unhinted)

    def as_json(self) -> dict[str, object]:
        """What the round's row keeps."""
        return json_record(self)


def json_record(record: "DataclassInstance") -> dict[str, object]:
    """A dataclass as JSON can hold it: what is not finite becomes null."""
    return dict(asdict(record, dict_factory=lambda pairs: {name: _plain(value) for name, value in pairs}))


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
