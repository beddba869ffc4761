"""Stop strings found across token borders, with no more text held back than a match could need."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """Text that may be sent now, and the stop string that ended the reply, if one did."""

    text: str
    matched: str | None


class StopText:
    """Holds back a tail only while it is a proper prefix of some stop string.

    The result does not depend on how the text is cut into pieces: among several stop strings the one that
    completes first ends the reply, at a tie the one named first.
    """

    def __init__(self, stops: Sequence[str], keep_match: bool = False) -> None:
        self._stops = tuple(stops)
        self._keep_match = keep_match
        self._held = ""

    def feed(self, piece: str, armed: bool = True) -> Release:
        """Add text. `armed=False` (before min_tokens) lets complete matches through."""
        text = self._held + piece
        match = self._earliest_match(text) if armed and piece else None
        if match is not None:
            start, stop = match
            self._held = ""
            return Release(text[: start + len(stop)] if self._keep_match else text[:start], stop)
        keep = self._prefix_length(text)
        self._held = text[len(text) - keep :]
        return Release(text[: len(text) - keep], None)

    def flush(self) -> str:
        """The tail still held, when the reply ended for another reason."""
        held, self._held = self._held, ""
        return held

    def _earliest_match(self, text: str) -> tuple[int, str] | None:
        best: tuple[int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (best is None or start + len(stop) < best[0] + len(best[1])):
                best = (start, stop)
        return best

    def _prefix_length(self, text: str) -> int:
        """Length of the longest suffix of `text` that is a proper prefix of a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            tail = text[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0
