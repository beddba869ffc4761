"""Nothing acknowledged is lost, nothing is trained twice: kill everything, again and again, and count.

    python -m bench.kills --database sqlite|postgresql [--kills 100] [--seed N]

Exit code 1 if anything was lost, trained twice, stuck, left over, or does not answer.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.tiny_model import build_tiny_model

from bench.kills.run import Plan, run
from bench.machine import read_result, this_machine, write_result

NAME = "kills"


def main() -> int:
    """Run, print, and keep the result under the database's name."""
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to run in and to keep, for looking into it")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="afterturn-kills-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(
            model=build_tiny_model(folder / "tiny"),
            folder=folder,
            postgresql=options.database == "postgresql",
            kills=options.kills,
            seed=options.seed,
        )
        result = asdict(run(plan, say)) | {"seed": options.seed}
    # Each database keeps the machine and commit of its own run.
    write_result(NAME, read_result(NAME) | {options.database: result | {"machine": asdict(this_machine())}})
    print(json.dumps(result, indent=1))
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
