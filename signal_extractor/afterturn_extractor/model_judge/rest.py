"""When a server that refused or failed may be asked again: one answer for all threads of a process."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from afterturn_core.columns import utc_now

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0  # between two tries of a server that does not say when to come back
BELIEVED_S: Final = 86_400.0  # a `Retry-After` beyond a day is taken for a day
LOOK_S: Final = 0.25  # how often those who wait for another's try look what came of it
OUTAGE_S: Final = 20.0  # failing for less than this is nothing that anybody has waited for


class Rest:
    """Thread-safe. After a failure nobody asks for as long as the server said, or with doubling pauses where
    it said nothing; then one thread tries, and the others wait for what comes of it.

    Args:
        trial_s: how long such a try may take.
        clock: seconds that only grow.
    """

    def __init__(self, trial_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._trial_s = trial_s
        self._clock = clock
        self._lock = threading.Lock()
        self._told_until = self._until = clock()
        self._failures = 0
        self._trying = False
        self._failing_since = 0.0
        self._came_back = False

    def ask(self) -> float:
        """Seconds to wait first; 0: this thread may ask now."""
        with self._lock:
            now = self._clock()
            left_s = max(self._told_until, self._until) - now
            if left_s > 0:
                return min(left_s, LOOK_S) if self._trying else left_s
            self._trying = self._failures > 0
            if self._trying:
                self._until = now + self._trial_s
            return 0.0

    def failed(self, told_s: float | None = None) -> None:
        """The server did not do what was asked; `told_s` is how long it wants to be left alone."""
        with self._lock:
            now = self._clock()
            if not self._failures:
                self._failing_since = now
            self._trying = False
            pause = min(FIRST_S * 2 ** min(self._failures, 30), LONGEST_S)
            # Several workers that met the same failure do not all come back at the same instant.
            self._until = now + pause * random.uniform(0.75, 1.25)
            if told_s is not None:
                self._until = now
                self._told_until = max(self._told_until, now + told_s)
            self._failures += 1

    def answered(self) -> None:
        """The server works. What it said about waiting stands all the same: it may limit the rate."""
        with self._lock:
            now = self._clock()
            if self._failures and now - self._failing_since >= OUTAGE_S:
                self._came_back = True
            self._failures = 0
            self._trying = False
            self._until = now

    def came_back(self) -> bool:
        """Whether the server answered again after an outage; true once for each."""
        with self._lock:
            came_back, self._came_back = self._came_back, False
            return came_back


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that a `Retry-After` (a number or a date, RFC 9110 §10.2.3) asks to wait; None without one."""
    told = headers.get("retry-after", "").strip()
    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(told) - utc_now()).total_seconds()
        except (ValueError, TypeError):  # no date, or one without a zone
            return None
    return min(seconds, BELIEVED_S) if seconds > 0 else None
