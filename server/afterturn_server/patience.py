"""How long an engine may say nothing: one timer for a request, looked at when it is due.

A timer that every piece of a stream sets anew costs more than reading the piece.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx

from afterturn_core.errors import EngineTimeout


class Patience:
    """Cancels the task that waits, once nothing was heard for so many seconds."""

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.over = False
        self._task = task
        self._cancelled_before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look)

    def heard(self) -> None:
        """Something came."""
        self._heard_at = self._loop.time()

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._timer.cancel()

    def is_what_cancelled(self) -> bool:
        """Whether a cancellation that has arrived was this one and no other."""
        return self.over and self._task.uncancel() <= self._cancelled_before

    def _look(self) -> None:
        left = self._heard_at + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.over = True
            self._task.cancel()


@contextmanager
def patience(seconds: float) -> Iterator[Patience]:
    """Be patient with what happens inside.

    Raises:
        EngineTimeout: nothing was heard for `seconds`.
    """
    limit = Patience(seconds)
    try:
        yield limit
    except asyncio.CancelledError:
        if limit.is_what_cancelled():
            raise EngineTimeout("The engine did not answer in time.") from None
        raise
    finally:
        limit.stop()


class Heard(httpx.AsyncByteStream):
    """A body whose every piece is heard."""

    def __init__(self, stream: httpx.AsyncByteStream, limit: Patience) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._limit.heard()
            yield piece

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()
