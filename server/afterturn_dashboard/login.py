"""Signing in and out: two plain forms, no script."""

from html import escape
from pathlib import Path
from string import Template

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from afterturn_dashboard.admission import COOKIE, visit_token
from afterturn_dashboard.gateway import GatewayAway, KeyRefused, check_key
from afterturn_dashboard.visits import IDLE_S, Visits

PAGE = Template((Path(__file__).parent / "login.html").read_text())


def login_routes(gateway_url: str, visits: Visits) -> APIRouter:
    """The routes `/login` and `/logout`."""
    routes = APIRouter()

    @routes.get("/login")
    async def show() -> Response:
        return _page("", gateway_url)

    @routes.post("/login")
    async def sign_in(request: Request, key: str = Form("", max_length=512)) -> Response:
        if visits.must_wait():
            return _page("Too many wrong keys. Wait a minute, then try again.", gateway_url, 429)
        key = key.strip()
        if not key:
            return _page("Enter the admin key.", gateway_url, 400)
        try:
            await check_key(gateway_url, key)
        except KeyRefused:
            visits.failed()
            return _page("The gateway does not take this key as an admin key.", gateway_url, 403)
        except GatewayAway:
            return _page(f"The gateway at {gateway_url} does not answer. Is it running?", gateway_url, 503)
        reply = RedirectResponse("/", 303)
        reply.set_cookie(
            COOKIE,
            visits.begin(key),
            max_age=int(IDLE_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return reply

    @routes.post("/logout")
    async def sign_out(request: Request) -> Response:
        visits.end(visit_token(request.headers.get("cookie")) or "")
        reply = RedirectResponse("/login", 303)
        reply.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return reply

    return routes


def _page(problem: str, gateway_url: str, status: int = 200) -> Response:
    notice = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return HTMLResponse(PAGE.substitute(notice=notice, gateway=escape(gateway_url)), status)
