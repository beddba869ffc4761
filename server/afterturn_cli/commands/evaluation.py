"""`afterturn eval`: how good the signals are."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..output import JsonFlag

app = typer.Typer(no_args_is_help=True, help="How good the signals are.")


@app.callback()
def _group() -> None:
    """Keeps `signals` a subcommand while it is the only one."""


@app.command()
def signals(
    file: Annotated[Path, typer.Argument(help="Labelled next states, a JSON object a line.")],
    judge: Annotated[
        Literal["rules", "openai"],
        typer.Option(help="The judge to compare; openai asks the model of AFTERTURN_JUDGE_URL."),
    ] = "rules",
    report: Annotated[
        Path | None,
        typer.Option(help="FILE.html: confusion matrices, reliability of votes, worst disagreements."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare a judge's verdicts and hints with labels."""
    command = [sys.executable, "-m", "afterturn_extractor.evaluation", f"--judge={judge}"]
    if report is not None:
        command.append(f"--report={report}")
    if as_json:
        command.append("--json")
    # Last and apart: a file may be named like an option.
    raise typer.Exit(subprocess.run([*command, "--", str(file)], check=False).returncode)
