"""The gateway as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from structlog.stdlib import get_logger

from afterturn_core.database import Database
from afterturn_core.errors import EngineError
from afterturn_core.settings import Settings

from .admin.app import PATH as ADMIN_PATH
from .admin.app import create_admin
from .exception_hooks import EXCEPTION_HOOKS
from .feedback import FeedbackRoutes
from .gateway import Gateway, Wakes
from .health import Health
from .hosts import KnownHosts
from .inference_routes import inference_routes
from .models_list import Models
from .openapi import PATH as OPENAPI_PATH
from .openapi import show as openapi
from .own import OwnRoutes
from .request_size import RequestSize
from .straight_through import StraightThrough

log = get_logger(__name__)


def create_app(settings: Settings, database: Database, wake: Wakes) -> Starlette:
    """An application over this database, engine and broker; `app.state.gateway` is what its routes share."""
    gateway = Gateway(settings, database, wake)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        gateway.loop = asyncio.get_running_loop()
        try:
            await gateway.look_at_engine()
        except EngineError as error:
            log.warning("engine_away", code=error.code)  # asked again with the first request
        yield
        await gateway.aclose()

    generating = inference_routes(gateway)
    health, models = Health(gateway), Models(gateway)
    feedback, own = FeedbackRoutes(gateway), OwnRoutes(gateway)
    app = Starlette(
        routes=[
            Route("/", _hello, methods=["HEAD"]),
            Route("/healthz", health.alive),
            Route("/readyz", health.ready),
            Route("/metrics", health.metrics),
            Route("/v1/models", models.all),
            Route("/v1/models/{model:path}", models.one),
            *generating,
            Route(OPENAPI_PATH, openapi),
            Route("/v1/feedback", feedback.post, methods=["POST"]),
            Route("/v1/feedback/{feedback_id}", feedback.get, methods=["GET"]),
            Route("/v1/feedback/{feedback_id}", feedback.delete, methods=["DELETE"]),
            Route("/v1/turns/{turn_id}", own.turn),
            Route("/v1/turns/{turn_id}", own.erase_turn, methods=["DELETE"]),
            Route("/v1/sessions", own.sessions),
            Route("/v1/sessions/{session_id:path}/end", own.end, methods=["POST"]),
            Route("/v1/sessions/{session_id:path}", own.erase_session, methods=["DELETE"]),
            Mount(ADMIN_PATH, create_admin(gateway)),
        ],
        middleware=[
            Middleware(RequestSize, admin_path=ADMIN_PATH),
            Middleware(KnownHosts, host=settings.host),
            Middleware(StraightThrough, routes=generating),
        ],
        exception_handlers=dict(EXCEPTION_HOOKS),
        lifespan=lifespan,
    )
    app.state.gateway = gateway
    return app


async def _hello(_request: Request) -> Response:
    """Some clients look whether anything is there before they speak."""
    return Response()
