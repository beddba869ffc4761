"""Adapters on this machine, checked against the checksums they were published with."""

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from afterturn_core.adapter_files import CONFIG, FILES, MANIFEST, WEIGHTS, sha256
from afterturn_core.errors import AdapterError, RequestError

_NAME = re.compile(r"([a-z0-9][a-z0-9._-]{0,62})@v([1-9][0-9]*)")


@dataclass(frozen=True)
class Finding:
    """What checking one adapter found."""

    name: str
    ok: bool
    problems: tuple[str, ...] = ()


def adapter_folder(root: Path, name: str) -> Path:
    """Where `NAME@vN` lies.

    Raises:
        RequestError: that is no adapter's name.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise RequestError(f"{name} is no adapter: write NAME@vN, as `afterturn adapters list` shows them")
    return root / parts[1] / f"v{parts[2]}"


def adapter_folders(root: Path) -> list[Path]:
    """Every adapter of this machine, agent by agent, oldest first."""
    found = [path for path in root.glob("*/v*") if path.is_dir() and path.name[1:].isdigit()]
    return sorted(found, key=lambda path: (path.parent.name, int(path.name[1:])))


def check_adapter(folder: Path, name: str | None = None) -> Finding:
    """Compare every file that the manifest lists with its checksum; `name` is what the finding is called, by
    default the adapter that a folder of this machine holds."""
    name = name or f"{folder.parent.name}@{folder.name}"
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        problems = [
            problem for file, expected in files.items() if (problem := _differs(folder, file, expected))
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Finding(name, False, (f"no readable {MANIFEST}",))
    for needed in (CONFIG, WEIGHTS):
        if needed not in files:
            problems.append(f"the manifest does not list {needed}")
    return Finding(name, not problems, tuple(problems))


def copy_adapter(source: Path, target: Path) -> None:
    """The files that make an adapter, into a folder that is there as a whole or not at all.

    Moments of the optimiser stay: they are of use to the live adapter of this install alone.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for file in FILES:
            shutil.copyfile(source / file, draft / file)
        draft.chmod(0o755)
        os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _differs(folder: Path, file: str, expected: str) -> str | None:
    if file not in (CONFIG, WEIGHTS):
        return f"the manifest lists {file[:80]!r}, which is no part of an adapter"
    try:
        return None if sha256(folder / file) == expected else f"{file} differs from its checksum"
    except AdapterError as error:
        return error.message
