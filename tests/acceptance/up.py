"""`afterturn up` as a person runs it, without a dashboard."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.acceptance.conftest import wait_until


@dataclass(frozen=True)
class Up:
    """A running `afterturn up`; `screen` is the file that it writes to."""

    process: subprocess.Popen[bytes]
    screen: Path

    def children(self) -> list[psutil.Process]:
        """Every process below it."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, *words: str) -> psutil.Process:
        """The process on whose command line all these words stand."""
        for child in self.children():
            if set(words) <= set(child.cmdline()):
                return child
        raise AssertionError(f"no process {words}")


@contextmanager
def running_up(variables: Mapping[str, str], screen: Path) -> Iterator[Up]:
    """Start it with these settings; begins once it is ready, and kills it if the block has not ended it."""
    with screen.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "afterturn_cli", "up", "--no-dashboard"],
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: "Afterturn is ready" in screen.read_text() or process.poll() is not None, "up is ready"
        )
        assert process.poll() is None, screen.read_text()
        yield Up(process, screen)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
