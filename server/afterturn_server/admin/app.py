"""The admin API as an application of its own, mounted under `/admin/api`."""

from fastapi import FastAPI

from ..exception_hooks import EXCEPTION_HOOKS
from ..gateway import Gateway
from . import adapters, agents, erasure, export, importing, keys, rounds, stats, turns

PATH = "/admin/api"


def create_admin(gateway: Gateway) -> FastAPI:
    """The routes of the admin API over a gateway; described at `openapi.json`."""
    app = FastAPI(
        title="Afterturn admin API",
        docs_url=None,
        redoc_url=None,
        exception_handlers=dict(EXCEPTION_HOOKS),
        redirect_slashes=False,
    )
    app.state.gateway = gateway
    app.state.figures = stats.counting(gateway)
    for part in (agents, keys, turns, rounds, adapters, importing, stats, export, erasure):
        app.include_router(part.router)
    return app
