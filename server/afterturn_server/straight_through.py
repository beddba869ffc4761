"""The short way for the requests that matter: no search among all routes, no layers that answer errors which
these routes answer themselves."""

from collections.abc import Sequence

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .inference import Inference


class StraightThrough:
    """Hands a POST to one of these routes over to it, and everything else on."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._posts = {route.path: route.app for route in routes if isinstance(route.endpoint, Inference)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        app = (
            self._posts.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        )
        await (app or self._app)(scope, receive, send)
