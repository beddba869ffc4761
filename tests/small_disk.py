"""A disk that is soon full: a file system in memory, mounted where the test wants it. Needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system of a few kilobytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / ".filler"

    def fill(self) -> None:
        """Take every byte that is free."""
        with self._filler.open("wb", buffering=0) as stream:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        stream.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """Give them back."""
        self._filler.unlink()

    def remount(self, option: str) -> None:
        """`ro`: nobody can write any more. `rw`: as before."""
        subprocess.run(("mount", "-o", f"remount,{option}", str(self.folder)), check=True)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[SmallDisk]:
    """Mount one on `folder`. Skips the test where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)
