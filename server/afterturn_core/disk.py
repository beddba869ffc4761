"""What outlives a power cut."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return once a file's content, or a folder's list of entries, is safe on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
