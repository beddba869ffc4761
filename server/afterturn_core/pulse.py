"""A process that nobody can ask over the network shows that it lives: it touches a file."""

import threading
from contextlib import suppress
from pathlib import Path

BEAT_S = 2.0


class Pulse:
    """From `start` on, touches its file every BEAT_S seconds for as long as the process runs at all.

    A process that hangs as a whole (stopped, swapped out) lets the file grow old.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Make the file, and go on touching it; starting again changes nothing."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch()
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Touch it no more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            with suppress(OSError):  # a disk that fails for a moment does not end the beating for good
                self._file.touch()
