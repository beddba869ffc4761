"""The dashboard's application: pages, signing in, and the guards around them."""

from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from nicegui import ui
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from afterturn_dashboard.adapters import draw_adapters, fetch_adapters
from afterturn_dashboard.admission import LOOPBACK_NAMES, Admission
from afterturn_dashboard.frame import frame
from afterturn_dashboard.live import Live
from afterturn_dashboard.login import login_routes
from afterturn_dashboard.overview import draw_overview, fetch_overview
from afterturn_dashboard.policy import Policy
from afterturn_dashboard.round_page import draw_round
from afterturn_dashboard.rounds import draw_rounds, fetch_rounds
from afterturn_dashboard.visits import Visit, Visits

STATIC = Path(__file__).parent / "static"


def create_app(gateway_url: str, hosts: frozenset[str] = LOOPBACK_NAMES) -> ASGIApp:
    """The application. NiceGUI keeps its pages in the process, so one process holds one dashboard.

    Args:
        gateway_url: root of the gateway whose admin API is shown.
        hosts: names under which the dashboard may be asked for, beside addresses.
    """
    visits = Visits()
    app = FastAPI(openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.include_router(login_routes(gateway_url, visits))
    _pages(gateway_url, visits)
    ui.run_with(
        app,
        title="Afterturn",
        favicon=STATIC / "afterturn.svg",
        dark=None,
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )
    return Policy(Admission(app, visits.find, hosts))


def _pages(gateway_url: str, visits: Visits) -> None:
    for sheet in ("tokens.css", "dashboard.css"):
        ui.add_head_html(f'<link rel="stylesheet" href="/static/{sheet}">', shared=True)

    @ui.page("/")
    def overview_page(request: Request) -> None:
        visit = _visit(request)
        with frame("Overview", visit):
            Live(visits, visit, gateway_url, fetch_overview, partial(draw_overview, gateway_url=gateway_url))

    @ui.page("/rounds")
    def rounds_page(request: Request) -> None:
        visit = _visit(request)
        with frame("Rounds", visit):
            Live(visits, visit, gateway_url, fetch_rounds, draw_rounds)

    @ui.page("/rounds/{round_id:path}")
    def round_page(request: Request, round_id: str) -> None:
        visit = _visit(request)
        with frame("Round", visit):
            Live(visits, visit, gateway_url, lambda gateway: gateway.round(round_id), draw_round)

    @ui.page("/adapters")
    def adapters_page(request: Request) -> None:
        visit = _visit(request)
        with frame("Adapters", visit):
            Live(visits, visit, gateway_url, fetch_adapters, draw_adapters)


def _visit(request: Request) -> Visit:
    visit = request.state.visit
    if not isinstance(visit, Visit):
        raise RuntimeError("a page was reached without a visit: Admission is not in front")
    return visit
