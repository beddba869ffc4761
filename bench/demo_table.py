"""The demo over seeds and arms, in one table: nothing left out.

    python -m bench.demo_table [--seeds 0 1 2 3 4] [--out bench/results/demo.json]

Runs `afterturn demo` for the hybrid objective on every seed, then verdicts alone, hints alone and the
placebo (random verdict signs, hints of an unrelated person) on the first. Every finished run is kept in
the file at once, and runs that are there already are not repeated.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.machine import RESULTS, this_machine

ARMS = {
    "hybrid": ("--objective", "hybrid"),
    "rl": ("--objective", "rl"),
    "opd": ("--objective", "opd"),
    "placebo": ("--objective", "hybrid", "--placebo"),
}


def run(arm: str, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """One demo; its report with the arm's name and the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = (sys.executable, "-m", "afterturn_cli", "demo", "--seed", str(seed), *ARMS[arm])
        extra = ("--report", str(report), "--engine", options.engine, "--rounds", str(options.rounds))
        done = subprocess.run((*command, *extra), check=False)
        found = json.loads(report.read_text()) if report.is_file() else {"error": "no report"}
        return {"arm": arm, "seed": seed, "exit_code": done.returncode} | found


def show(runs: list[dict[str, object]]) -> None:
    """Print one row a run."""
    table = Table(title="held-out satisfied and capability, before and after")
    for column in (
        "arm",
        "seed",
        "signals",
        "satisfied after each round",
        "capability",
        "failed",
        "s",
        "exit",
    ):
        table.add_column(column)
    for one in runs:
        curve = one.get("curve")
        before, after = one.get("before"), one.get("after")
        if not isinstance(curve, list) or not isinstance(before, dict) or not isinstance(after, dict):
            table.add_row(str(one["arm"]), str(one["seed"]), "", str(one.get("error")), "", "", "", "1")
            continue
        steps = [before["satisfied"], *(point["satisfied"] for point in curve)]
        table.add_row(
            str(one["arm"]),
            str(one["seed"]),
            str(one["signals"]),
            " → ".join(map(str, steps)) + f" of {after['n']}",
            f"{_figure(one['capability_before'])} → {_figure(one['capability_after'])}",
            f"{one['failed_requests']} of {one['requests']}",
            str(one["seconds"]),
            str(one["exit_code"]),
        )
    Console(width=140).print(table)


def _figure(share: object) -> str:
    return f"{share:.3f}" if isinstance(share, float) else "-"


def main() -> int:
    """Run what is missing, show everything; 0 if every hybrid seed passed and no placebo did."""
    parser = argparse.ArgumentParser(description="the demo over seeds and arms")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--out", type=Path, default=RESULTS / "demo.json")
    options = parser.parse_args()
    plan = [("hybrid", seed) for seed in options.seeds]
    plan += [(arm, options.seeds[0]) for arm in ("placebo", "rl", "opd")]
    runs: list[dict[str, object]] = []
    if options.out.is_file():
        runs = json.loads(options.out.read_text())["runs"]
    for arm, seed in plan:
        if any(one["arm"] == arm and one["seed"] == seed for one in runs):
            continue
        runs.append(run(arm, seed, options))
        options.out.parent.mkdir(exist_ok=True)
        options.out.write_text(json.dumps({"machine": asdict(this_machine()), "runs": runs}, indent=1) + "\n")
    show(runs)
    passed = [one["exit_code"] == 0 for one in runs if one["arm"] == "hybrid"]
    fooled = [one["exit_code"] == 0 for one in runs if one["arm"] == "placebo"]
    return 0 if all(passed) and not any(fooled) else 1


if __name__ == "__main__":
    sys.exit(main())
