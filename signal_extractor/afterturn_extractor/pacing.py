"""How often something that stays undone is sent again: at once, then with doubling pauses."""

from collections.abc import Collection


class Pace:
    """Remembers, in this process, what was sent and when it may be sent again.

    Nothing is lost when the process ends: whatever is still undone is then sent once more.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next: dict[str, tuple[float, float]] = {}  # id → (due at, pause after that), seconds

    def is_due(self, name: str, now: float) -> bool:
        """Whether it may be sent (again)."""
        return name not in self._next or self._next[name][0] <= now

    def sent(self, name: str, now: float) -> None:
        """It was sent: the next pause begins. What could not be sent stays due."""
        pause = self._next[name][1] if name in self._next else self._first_s
        self._next[name] = (now + pause, min(pause * 2, self._longest_s))

    def keep(self, waiting: Collection[str]) -> None:
        """Forget all that no longer waits."""
        self._next = {name: self._next[name] for name in waiting if name in self._next}

    def forget(self) -> None:
        """Whatever held things up is over: all that waits may be sent at once."""
        self._next.clear()
