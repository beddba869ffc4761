"""Figures that take long to count are counted now and then, beside the requests, never for each of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

CHEAP_S = 0.1  # counting that takes no longer is done for every request: a small install shows the present
REST = 50  # times as long as counting took, figures are good: counting takes at most a fiftieth of the time


class Figures(Generic[T]):
    """The last count, and when it is due again.

    `clock` gives seconds.
    """

    def __init__(
        self, count: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._clock = clock
        self._last: T | None = None
        self._took = 0.0
        self._at = 0.0
        self._counting: asyncio.Task[T] | None = None

    async def now(self) -> T:
        """The figures: fresh if that is cheap or there are none yet, else as they were at the last count."""
        if self._last is None or self._took <= CHEAP_S:
            return await asyncio.shield(self._started())
        if self._clock() - self._at > REST * self._took:
            self._started()
        return self._last

    async def settled(self) -> None:
        """Wait for a count that runs."""
        if self._counting is not None:
            await self._counting

    def _started(self) -> "asyncio.Task[T]":
        """The count that runs; one at a time, however many ask."""
        if self._counting is None:
            self._counting = asyncio.create_task(self._run())
            self._counting.add_done_callback(self._ended)
        return self._counting

    async def _run(self) -> T:
        began = self._clock()
        self._last = await self._count()
        self._at = self._clock()
        self._took = self._at - began
        return self._last

    def _ended(self, task: "asyncio.Task[T]") -> None:
        self._counting = None
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; a count in the background is tried again
