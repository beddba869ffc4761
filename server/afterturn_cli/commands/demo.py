"""`afterturn demo`: the whole loop on a throw-away install, with figures."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..output import console


class EngineKind(StrEnum):
    """Which engine the demo runs on."""

    EMBEDDED = "embedded"
    VLLM = "vllm"


def demo(
    engine: Annotated[EngineKind, typer.Option(help="The embedded one, or CPU vLLM.")] = EngineKind.EMBEDDED,
    persona: Annotated[str, typer.Option(help="The user's hidden preference.")] = "short",
    objective: Annotated[str, typer.Option(help="hybrid, rl or opd instead of the setting.")] = "",
    placebo: Annotated[
        bool, typer.Option("--placebo", help="Random verdicts, hints of somebody else.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Same seed, same questions and words.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds to train.")] = 5,
    turns_per_round: Annotated[int, typer.Option(min=1, help="Turns to judge before each round.")] = 8,
    report: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("demo-report.json"),
    keep: Annotated[Path | None, typer.Option(help="Keep the install in this folder.")] = None,
) -> None:
    """A real conversation with a scripted user, training, swaps, and held-out figures."""
    # Here and not above: `afterturn --help` need not load the openai package.
    from ..demo.run import DemoOptions, main

    options = DemoOptions(
        engine=engine.value,
        persona=persona,
        objective=objective,
        placebo=placebo,
        seed=seed,
        rounds=rounds,
        turns_per_round=turns_per_round,
        report=report,
        keep=keep,
    )
    raise typer.Exit(main(options, console()))
