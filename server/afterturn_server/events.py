"""Server-sent events: reading an engine's, writing a client's."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from starlette.types import Send

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
_DATA = b"data:"


class EventReader:
    """Cuts bytes, as they come from the wire, into the data of whole events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The data of each event that is complete now; comments and other fields are dropped."""
        self._rest += received
        if b"\r" in self._rest:
            self._rest = self._rest.replace(b"\r\n", b"\n")
        *events, self._rest = self._rest.split(b"\n\n")
        for event in events:
            if event.startswith(_DATA) and b"\n" not in event:
                yield event[5:].strip()
                continue
            data = [line[5:].strip() for line in event.split(b"\n") if line.startswith(_DATA)]
            if data:
                yield b"\n".join(data)


async def events_in(received: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Groups of events as they arrive together."""
    reader = EventReader()
    async for chunk in received:
        group = list(reader.feed(chunk))
        if group:
            yield group


class EventSender:
    """Sends whole events, and `keep_alive` between them when nothing else was sent for a while."""

    def __init__(
        self, send: Send, keep_alive_s: float, keep_alive: Callable[[], bytes] = lambda: KEEP_ALIVE
    ) -> None:
        self._send = send
        self._keep_alive_s = keep_alive_s
        self._sign_of_life = keep_alive
        self._last = 0.0
        self._beat: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether the status is sent, so that nothing but the stream can tell of a failure."""
        return self._beat is not None

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send the status and headers."""
        fields = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
            **headers,
        }
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in fields.items()]
        self._last = time.monotonic()
        self._beat = asyncio.create_task(self._keep_alive())
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def events(self, data: bytes) -> None:
        """Send events that are complete."""
        self._last = time.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes) -> None:
        """Send the last events and end the body."""
        self.stop()
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def stop(self) -> None:
        """Send no more signs of life."""
        if self._beat is not None:
            self._beat.cancel()

    async def _keep_alive(self) -> None:
        while True:
            wait = self._last + self._keep_alive_s - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            else:
                await self.events(self._sign_of_life())
