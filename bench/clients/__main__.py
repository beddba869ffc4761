"""Real client programs against the gateway: does every turn end up where it belongs?

    python -m bench.clients [--root DIR] [--only NAME,…] [--keep DIR]

Each program has the same conversation three times at once: two of one agent's key, with words of their own,
and one of another agent with the first one's words. Everything happens in a network namespace with nothing
but a loopback. `bench/clients/setup.sh ROOT` installs the programs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.clients.graph import Report, belongs, expected, report
from bench.clients.programs import PROGRAMS, Home, Program
from bench.clients.stack import Stack, running_stack
from bench.clients.talk import Talk
from bench.machine import read_result, write_result

ROOT = Path(os.environ.get("AFTERTURN_CLIENTS_DIR", "~/.cache/afterturn-clients")).expanduser()
INSIDE = "AFTERTURN_CLIENTS_INSIDE"
PATIENCE_S = 300.0  # one start of one program, on a machine that is busy with others
AGENTS = ("alder", "birch")
RUNS = (("alder", "heron"), ("alder", "otter"), ("birch", "heron"))


@dataclass(frozen=True)
class Result:
    """A row of the results: `linked` of `mains` turns hang where they belong."""

    version: str
    works: bool
    turns: int
    linked: int
    mains: int
    sides_found: int
    faults: tuple[str, ...]
    cannot: str


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clients")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the programs are installed")
    parser.add_argument("--only", help="names of programs, by commas")
    parser.add_argument("--keep", type=Path, help="keep homes, outputs and the database here")
    asked = parser.parse_args()
    if INSIDE not in os.environ:
        _go_inside()
    wanted = None if asked.only is None else asked.only.split(",")
    programs = [one for one in PROGRAMS if wanted is None or one.name in wanted]
    with tempfile.TemporaryDirectory(prefix="clients-") as temporary:
        results = run(programs, asked.root, asked.keep or Path(temporary))
    _print(results)
    write_result("clients", _earlier() | {name: asdict(result) for name, result in results.items()})
    wrong = [name for name, one in results.items() if one.faults or not one.works]
    sys.exit(1 if wrong or len(results) < len(programs) else 0)


def run(programs: Sequence[Program], root: Path, folder: Path) -> dict[str, Result]:
    """The results of every program that is installed, by its name."""
    results = {}
    for program in programs:
        version = program.version(root)
        if version is None:
            print(f"{program.name}: not installed", file=sys.stderr)
            continue
        place = folder / program.name
        place.mkdir(parents=True)
        with running_stack(place / "data", AGENTS) as stack:
            results[program.name] = _one(program, version, root, place, stack)
        print(f"{program.name}: {results[program.name]}", file=sys.stderr, flush=True)
    return results


def _earlier() -> dict[str, object]:
    """What was found before of programs that are not run now; each names its version."""
    found = read_result("clients")
    return {one.name: found[one.name] for one in PROGRAMS if one.name in found}


def _one(program: Program, version: str, root: Path, folder: Path, stack: Stack) -> Result:
    homes = [
        Home(root, folder / f"{agent}-{word}", f"{stack.url}/v1", stack.keys[agent], agent, Talk(word))
        for agent, word in RUNS
    ]
    with ThreadPoolExecutor(len(homes)) as pool:
        works = list(pool.map(lambda home: _talk(program, home), homes))
    reports: list[Report] = []
    faults: list[str] = []
    count = 0
    sessions: set[str] = set()
    for home in homes:
        all_turns = stack.turns(home.model)
        (home.folder / "turns.json").write_text(json.dumps(all_turns, indent=1))
        turns = [turn for turn in all_turns if belongs(turn, home.talk)]
        found = report(turns, expected(program.shape, home.talk), program.shape)
        reports.append(found)
        count += len(turns)
        faults += [f"{home.model}/{home.talk.word}: {fault}" for fault in found.faults]
        own = {turn["session_id"] for turn in turns}
        if own & sessions:
            faults.append(f"{home.model}/{home.talk.word}: shares a session")
        sessions |= own
    return Result(
        version=version,
        works=all(works),
        turns=count,
        linked=sum(found.linked for found in reports),
        mains=sum(found.mains for found in reports),
        sides_found=sum(found.sides for found in reports),
        faults=tuple(faults),
        cannot=program.cannot,
    )


def _talk(program: Program, home: Home) -> bool:
    """Have the conversation; whether the program ended well and showed what the model said."""
    home.folder.mkdir(parents=True)
    said = ""
    for number, command in enumerate(program.commands(home)):
        path = os.pathsep.join([*map(str, command.path), "/usr/local/bin", "/usr/bin", "/bin"])
        basic = {"HOME": str(home.folder), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm", "TZ": "UTC"}
        try:
            done = subprocess.run(
                command.argv,
                cwd=home.work,
                env=basic | command.env,
                input=command.stdin,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        (home.folder / f"output-{number}.txt").write_text(f"{done.returncode}\n{done.stdout}\n{done.stderr}")
        if done.returncode != 0:
            return False
        said += done.stdout + done.stderr
    return program.shown in said


def _go_inside() -> None:
    """Start again where nothing but the loopback can be reached."""
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    inside = f'ip link set lo up && exec {sys.executable} -m bench.clients "$@"'
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *root, "-n", "sh", "-c", inside, "sh", *sys.argv[1:]])


def _print(results: dict[str, Result]) -> None:
    table = Table("client", "version", "works", "turns", "linked", "sides", "what is wrong, or cannot be had")
    for name, one in results.items():
        table.add_row(
            name,
            one.version,
            "yes" if one.works else "no",
            str(one.turns),
            f"{one.linked} of {one.mains}",
            str(one.sides_found),
            "\n".join((*one.faults, one.cannot)).strip(),
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
