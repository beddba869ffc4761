"""Bare HTTP over asyncio, for benches in which the client must cost next to nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Head:
    """Status and headers of an answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]


class Wire:
    """One connection that is kept; requests go one after the other."""

    def __init__(self, url: str, *, receive_buffer: int | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._receive_buffer = receive_buffer
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> "Wire":
        limit = self._receive_buffer or 2**16
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=limit)
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    async def ask(self, path: str, content: bytes, headers: Mapping[str, str]) -> Head:
        """Send a POST and read the head of its answer."""
        assert self._writer is not None
        fields = {"Host": f"{self._host}:{self._port}", "Content-Type": "application/json", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._writer.write(
            f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
        )
        return await self.head()

    async def head(self) -> Head:
        """The head of the next answer."""
        assert self._reader is not None
        raw = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = raw.rstrip().split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return Head(int(status.split(" ", 2)[1]), {name.lower(): value.strip() for name, value in pairs})

    async def body(self, head: Head) -> AsyncIterator[bytes]:
        """The body in the pieces that it comes in."""
        assert self._reader is not None
        if "chunked" not in head.headers.get("transfer-encoding", ""):
            yield await self._reader.readexactly(int(head.headers.get("content-length", 0)))
            return
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()


async def whole(wire: Wire, head: Head) -> bytes:
    """The whole body."""
    return b"".join([piece async for piece in wire.body(head)])
