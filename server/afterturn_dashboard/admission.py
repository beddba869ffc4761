"""Who may talk to the dashboard at all: known hosts, our own pages, signed-in browsers."""

from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from afterturn_dashboard.visits import Visit

COOKIE = "afterturn_visit"
LOOPBACK_NAMES = frozenset({"localhost"})
# What a browser without a visit may load: the sign-in page, and library code that holds nothing of ours.
OPEN_PATHS = ("/login", "/static/", "/_nicegui/", "/favicon")
READING = frozenset({"GET", "HEAD"})

FindVisit: TypeAlias = Callable[[str], Visit | None]


def host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None if it is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def is_known(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header may be ours: a name on the list, or any address.

    Rebinding needs a name that changes its address; an address in its place is where the request went.
    """
    name = host_name(host)
    if name is None or name in names:
        return name is not None
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def same_origin(origin: str | None, host: str) -> bool:
    """Whether an Origin header names the very host (and port) the request was sent to."""
    if origin is None:
        return False
    parts = urlsplit(origin)
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()


def visit_token(cookie_header: str | None) -> str | None:
    """The visit's token in a Cookie header."""
    if not cookie_header:
        return None
    try:
        morsel = SimpleCookie(cookie_header).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel else None


class Admission:
    """ASGI middleware: 421 for an unknown host (DNS rebinding), 403 for a foreign page, sign-in for the rest.

    State changes and the socket over which NiceGUI sends clicks need an Origin of our own, so no other page
    can send them; reading changes nothing. The visit found is left in `scope["state"]["visit"]`.
    """

    def __init__(self, app: ASGIApp, find_visit: FindVisit, hosts: frozenset[str]) -> None:
        self._app = app
        self._find_visit = find_visit
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        visit = self._find_visit(visit_token(headers.get("cookie")) or "")
        refusal = self._refusal(scope, headers, visit)
        if refusal is None:
            # NiceGUI writes this header's value into its pages; nothing in front of us sets it.
            raw = [(name, value) for name, value in scope["headers"] if name != b"x-forwarded-prefix"]
            state = {**scope.get("state", {}), "visit": visit}
            await self._app({**scope, "headers": raw, "state": state}, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, visit: Visit | None) -> Response | None:
        host = headers.get("host", "")
        if not is_known(host, self._hosts):
            return PlainTextResponse("This dashboard is not served under that name.", 421)
        changes = scope["type"] == "websocket" or scope["method"] not in READING
        if changes and not same_origin(headers.get("origin"), host):
            return PlainTextResponse("Only the dashboard's own pages may do this.", 403)
        path: str = scope["path"]
        socket = path.startswith("/_nicegui_ws")
        if visit is None and (socket or not path.startswith(OPEN_PATHS)):
            if scope["type"] == "http" and scope["method"] in READING and not socket:
                return RedirectResponse("/login", 303)
            return PlainTextResponse("Sign in first.", 401)
        return None
