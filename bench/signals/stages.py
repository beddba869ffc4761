"""The rules of another revision, read out of the repository and run beside today's."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from afterturn_extractor.evidence import Evidence, Verdict

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("server", "signal_extractor")


def verdicts(revision: str, evidence: Sequence[Evidence]) -> list[Verdict | None]:
    """What the rules of a commit say about each; raises CalledProcessError if they cannot run."""
    packed = subprocess.run(
        ("git", "archive", revision, "--", *_FOLDERS), cwd=_ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        path = os.pathsep.join(str(Path(folder, name)) for name in _FOLDERS)
        done = subprocess.run(
            (sys.executable, str(Path(__file__).with_name("verdicts.py"))),
            input="".join(_line(one) for one in evidence),
            env=os.environ | {"PYTHONPATH": path},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _line(one: Evidence) -> str:
    (part,) = one.next_state
    told = {
        "request": one.user_request,
        "reply": one.reply_text,
        "calls": [(call.name, call.arguments) for call in one.reply_tool_calls],
        "role": part.role,
        "text": part.text,
    }
    return json.dumps(told) + "\n"
