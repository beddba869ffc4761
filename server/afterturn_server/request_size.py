"""What a request may weigh before anybody has looked at who sends it."""

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterturn_core.errors import BodyTooLarge, RequestError

from .answers import error_response
from .exception_hooks import refusal

HEADER_BYTES = 64 * 1024
ADMIN_BYTES = 1024 * 1024  # of JSON; an adapter's archive is larger, and bounded where it is read
_ARCHIVE = b"application/zip"


class HeadersTooLarge(RequestError):
    """More header than any client has to say."""

    status = 431
    code = "headers_too_large"


class RequestSize:
    """Refuses headers that are too long, and JSON for the admin API (which reads it before it knows whose it
    is) that is too large."""

    def __init__(self, app: ASGIApp, admin_path: str) -> None:
        self._app = app
        self._admin_path = admin_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
            error = HeadersTooLarge(f"The request's headers are larger than {HEADER_BYTES} bytes.")
            await refusal(Request(scope), error)(scope, receive, send)
        elif scope["path"].startswith(self._admin_path) and not _is_archive(scope):
            await _Bounded(self._app, scope, receive, send).run()
        else:
            await self._app(scope, receive, send)


def _is_archive(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return bool(kinds) and kinds[0].partition(b";")[0].strip().lower() == _ARCHIVE


class _Bounded:
    """One request whose body is counted as it comes; past the bound its answer is the refusal."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._size = 0

    async def run(self) -> None:
        headers = dict(self._scope["headers"])
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > ADMIN_BYTES:
            await self._refuse()
        else:
            await self._app(self._scope, self._counted, self._unless_refused)

    async def _counted(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > ADMIN_BYTES:
            await self._refuse()
            return {"type": "http.disconnect"}
        return message

    async def _unless_refused(self, message: Message) -> None:
        if self._size <= ADMIN_BYTES:
            await self._send(message)

    async def _refuse(self) -> None:
        error = BodyTooLarge(f"The request body is larger than {ADMIN_BYTES} bytes.")
        await error_response(error)(self._scope, self._receive, self._send)
