"""Answers that notice when the client goes away: the work behind them is cancelled at once.

Both watch the socket itself while they work. Nothing may stand between them and the server that hides the
disconnect, such as a function-style middleware.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from afterturn_engine.errors import EngineError, GenerationFailed
from afterturn_engine.responses import ErrorInfo, ErrorResponse

Answer = TypeVar("Answer")
# Stops what still runs; harmless when nothing does.
Cancel = Callable[[], None]

log = logging.getLogger(__name__)


def error_body(error: EngineError) -> str:
    info = ErrorInfo(message=error.message, type=error.kind, param=error.param, code=error.status)
    return ErrorResponse(error=info).model_dump_json()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(
    request: Request, work: Coroutine[None, None, Answer], cancel: Cancel
) -> Answer | None:
    """The work's result, or None if the client left first; `cancel` is called in any case."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnect(request.receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        cancel()
        await _end(working, leaving)


class EventStream(Response):
    """Server-sent events, one a chunk, then `[DONE]`; an error on the way becomes an event."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncIterator[BaseModel], cancel: Cancel) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(send))
        leaving = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        finally:
            self._cancel()
            await _end(sending, leaving)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._chunks:
                await self._event(send, chunk.model_dump_json(exclude_unset=True))
        except EngineError as error:
            await self._event(send, error_body(error))
        except Exception:
            log.exception("a stream failed")
            await self._event(send, error_body(GenerationFailed()))
        await self._event(send, "[DONE]")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _event(self, send: Send, data: str) -> None:
        body = b"data: " + data.encode() + b"\n\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _end(*tasks: "asyncio.Task[Answer] | asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
