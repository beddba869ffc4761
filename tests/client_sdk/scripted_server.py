"""A real HTTP server that answers what a test tells it to, and remembers what it was asked."""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from afterturn import JSON, JSONObject

METHODS = ["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str  # still quoted
    params: dict[str, str]
    headers: dict[str, str]
    body: JSON
    at: float  # monotonic seconds
    archive: bytes = b""  # a body that is no JSON


@dataclass(frozen=True)
class Reply:
    """A reply to give. `cut` breaks the connection after the body instead of ending it."""

    status: int = 200
    body: JSON = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    cut: bool = False

    def response(self) -> Response:
        if self.cut:
            return StreamingResponse(self._broken(), self.status, headers=self.headers)
        if self.text is not None:
            return Response(self.text, self.status, headers=self.headers)
        return JSONResponse(self.body, self.status, headers=self.headers)

    async def _broken(self) -> AsyncIterator[bytes]:
        yield (self.text or "").encode()
        raise ConnectionAbortedError("cut as told")


def error(message: str, *, code: str | None = None, param: str | None = None) -> JSONObject:
    """An error body as the gateway writes it."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": param}}


class ScriptedServer:
    """Answers each "METHOD path" with the replies queued for it, the last one for ever.

    Without a queue, `POST /v1/feedback` behaves as the contract says: 201, 200 for the same event, 409 for
    the same key with another body, 404 for a turn named "unknown".
    """

    def __init__(self, port: int | None = None) -> None:
        self.asked: list[Asked] = []
        self.stored: dict[str, JSONObject] = {}
        self._replies: dict[str, deque[Reply]] = {}
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port or 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=METHODS)])
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def forget(self) -> None:
        """Start over."""
        self.asked.clear()
        self.stored.clear()
        self._replies.clear()

    def reply(self, call: str, *replies: Reply) -> None:
        """Queue replies for "METHOD path" (the path as the client quotes it)."""
        self._replies.setdefault(call, deque()).extend(replies)

    def asked_for(self, call: str) -> list[Asked]:
        """The requests of "METHOD path", in order."""
        return [asked for asked in self.asked if f"{asked.method} {asked.path}" == call]

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _answer(self, request: Request) -> Response:
        content = await request.body()
        packed = request.headers.get("content-type") == "application/zip"
        asked = Asked(
            request.method,
            request.scope["raw_path"].decode(),
            dict(request.query_params),
            dict(request.headers),
            json.loads(content) if content and not packed else None,
            time.monotonic(),
            content if packed else b"",
        )
        self.asked.append(asked)
        queue = self._replies.get(f"{asked.method} {asked.path}")
        if queue:
            return (queue.popleft() if len(queue) > 1 else queue[0]).response()
        if (asked.method, asked.path) == ("POST", "/v1/feedback") and isinstance(asked.body, dict):
            return self._feedback(asked.body).response()
        return Reply(404, error("no such route", code="not_found")).response()

    def _feedback(self, body: JSONObject) -> Reply:
        key = str(body["idempotency_key"])
        if body.get("turn_id") == "unknown":
            return Reply(404, error("no such turn", param="turn_id"))
        if key in self.stored:
            same = self.stored[key] == body
            return Reply(200, {"id": f"f-{key}"}) if same else Reply(409, error("another body"))
        self.stored[key] = body
        return Reply(201, {"id": f"f-{key}"})


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
