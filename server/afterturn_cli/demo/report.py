"""What a demo run measured: `demo-report.json` and the table people read."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Satisfied:
    """How many of `n` held-out replies meet the hidden preference."""

    satisfied: int
    n: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.satisfied / self.n


@dataclass(frozen=True)
class CurvePoint:
    """Held-out figures after a round: `signals` trained so far, `capability` the share of probes that the
    live adapter solves, None while no candidate got as far as the probes."""

    signals: int
    satisfied: int
    capability: float | None
    round_state: str
    adapter: str


@dataclass(frozen=True)
class DemoReport:
    """One demo run. `model_calls` are the conversation's; `requests` add evaluation and the second client.

    `seconds` is conversation and training (the limit of ten minutes is on this); `seconds_in_all` adds
    starting the stack and the held-out evaluations between rounds.
    """

    model: str
    engine: str
    objective: str
    persona: str
    placebo: bool
    seed: int
    signals: int
    model_calls: int
    rounds: int
    swaps: int
    requests: int
    failed_requests: int
    second_client_requests: int
    before: Satisfied
    after: Satisfied
    capability_before: float | None
    capability_after: float | None
    curve: tuple[CurvePoint, ...]
    seconds: float
    seconds_in_all: float

    @property
    def improved(self) -> bool:
        """Whether learning showed: the bar of `make demo`."""
        if self.capability_before is None or self.capability_after is None:
            return False
        kept = self.capability_after >= self.capability_before - 0.05 - 1e-9
        return self.before.share <= 0.2 and self.after.share >= 0.7 and kept

    @property
    def passed(self) -> bool:
        """Improved, and nobody's request failed."""
        return self.improved and self.failed_requests == 0


def write_report(report: DemoReport, path: Path) -> None:
    """Write the report as JSON, whole or not at all."""
    work = path.with_suffix(".tmp")
    work.write_text(json.dumps(asdict(report), indent=1) + "\n")
    work.replace(path)


def show_report(report: DemoReport, console: Console) -> None:
    """Print the curve and the verdict."""
    table = Table(title=f"{report.persona}, {report.objective}, seed {report.seed}, engine {report.engine}")
    for column in ("trained signals", "satisfied", "capability", "round", "adapter"):
        table.add_column(column, justify="right")
    table.add_row(
        "0", _share(report.before.satisfied, report.before.n), _solved(report.capability_before), "", "base"
    )
    for point in report.curve:
        table.add_row(
            str(point.signals),
            _share(point.satisfied, report.after.n),
            _solved(point.capability),
            point.round_state,
            point.adapter,
        )
    console.print(table)
    console.print(
        f"held-out satisfied {_share(report.before.satisfied, report.before.n)} → "
        f"{_share(report.after.satisfied, report.after.n)}, capability {_solved(report.capability_before)} → "
        f"{_solved(report.capability_after)}; {report.signals} signals, {report.model_calls} model calls, "
        f"{report.rounds} rounds, {report.swaps} swaps, {report.failed_requests} of {report.requests} "
        f"requests failed, {report.seconds:.0f} s talking and training ({report.seconds_in_all:.0f} s in all)"
    )
    console.print("[green]passed[/green]" if report.passed else "[red]did not pass[/red]")


def _share(satisfied: int, n: int) -> str:
    return f"{satisfied}/{n} ({satisfied / n:.0%})"


def _solved(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
