"""Noticing that a client has left, whatever is being waited for."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientLeft(Exception):
    """The client closed the connection before its answer was complete."""


class Watch:
    """Reads a request's channel, whose body has been read, until the client leaves."""

    def __init__(self, receive: Receive) -> None:
        self._gone = asyncio.ensure_future(_left(receive))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` comes to; it is cancelled when the client leaves.

        Raises:
            ClientLeft: the client left first.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        cancelled = False

        def leave(_gone: asyncio.Future[None]) -> None:
            nonlocal cancelled
            cancelled = True
            task.cancel()

        if self._gone.done():
            work.close()
            raise ClientLeft
        self._gone.add_done_callback(leave)
        try:
            result = await work
            if cancelled:  # it came to its end all the same
                task.uncancel()
            return result
        except asyncio.CancelledError:
            if cancelled and task.uncancel() <= cancelled_before:
                raise ClientLeft from None
            raise
        finally:
            self._gone.remove_done_callback(leave)

    def close(self) -> None:
        """Stop watching."""
        self._gone.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
