"""`afterturn eval`: how good the signals are."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..output import JsonFlag

app = typer.Typer(no_args_is_help=True, help="How good the signals are.")


@app.callback()
def _group() -> None:
    """Keeps `signals` a subcommand while it is the only one."""


@app.command()
def signals(
    file: Annotated[Path, typer.Argument(help="Labelled next states, a JSON object a line.")],
    as_json: JsonFlag = False,
) -> None:
    """Compare the rules' verdicts and hints with labels."""
    command = [sys.executable, "-m", "afterturn_extractor.scoring", str(file)]
    if as_json:
        command.append("--json")
    raise typer.Exit(subprocess.run(command, check=False).returncode)
