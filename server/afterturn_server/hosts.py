"""Which names this gateway answers to: a page that rebinds its own name to the loopback gets nothing."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from afterturn_core.errors import PermissionDenied

from .exception_hooks import refusal
from .health import is_loopback

MOST_KNOWN = 64


class KnownHosts:
    """Refuses requests whose `Host` is not this machine's, while only this machine is served."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._host = host
        self._here_only = is_loopback(host)
        self._known: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] == "http" and self._here_only and not self._knows(_host(scope)):
            error = PermissionDenied("This host name is not served here.", code="unknown_host")
            await refusal(Request(scope), error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, host: str) -> bool:
        """Whether a `Host` header names this machine; the ones that do are few, and remembered."""
        if host in self._known:
            return True
        name = _name(host)
        if not is_loopback(name) and name != self._host:
            return False
        if len(self._known) < MOST_KNOWN:
            self._known.add(host)
        return True


def _host(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            found: str = value.decode("latin-1")
            return found
    return ""


def _name(host: str) -> str:
    """The name in a `Host` header; empty for one that is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # an opening bracket that nothing closes
        return ""
