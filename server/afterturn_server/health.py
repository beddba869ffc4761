"""Whether this process lives, whether what it needs is there, and its figures."""

import ipaddress

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text
from sqlmodel import Session, col, func, select
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import DatabaseAway, EngineError, NotFound
from afterturn_core.models import Adapter, Agent

from .answers import Json, JsonResponse
from .gateway import Gateway


class Health:
    """`/healthz`, `/readyz` and `/metrics`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def alive(self, _request: Request) -> Response:
        """The process answers; `accepting` is false while it shuts down."""
        return JsonResponse({"ok": True, "accepting": self._gateway.accepting})

    async def ready(self, _request: Request) -> Response:
        """Each dependency and its state; 503 unless requests can be answered."""
        engines = await self._gateway.upstream.health()
        database = await self._database()
        ready = database and any(engines.values())
        report: Json = {
            "ready": ready,
            "database": {"ok": database},
            "engine": {
                "ok": any(engines.values()),
                "replicas": [{"ok": healthy} for healthy in engines.values()],
            },
        }
        if ready:
            report["adapters"] = await self._adapters()
        return JsonResponse(report, 200 if ready else 503)

    async def _database(self) -> bool:
        try:
            await self._gateway.read(lambda session: session.connection().execute(text("SELECT 1")).scalar())
        except DatabaseAway:
            return False
        return True

    async def _adapters(self) -> Json:
        """How many agents the base model answers for since their adapter was made for another one.

        They are served, so this says nothing about being ready; which ones, `afterturn doctor` tells.
        """
        try:
            weights = await self._gateway.weights()
            unfit = await self._gateway.read(lambda session: count_unfit(session, weights.model_hash))
        except (EngineError, DatabaseAway):
            return {"ok": False}
        return {"ok": unfit == 0, "of_another_base": unfit}

    async def metrics(self, request: Request) -> Response:
        """Prometheus text, for this machine only.

        Raises:
            NotFound: the client is elsewhere, or behind a proxy.
        """
        client = request.client
        if client is None or not is_loopback(client.host) or "x-forwarded-for" in request.headers:
            raise NotFound("Unknown request URL: GET /metrics", code="unknown_url")
        return Response(generate_latest(self._gateway.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def count_unfit(session: Session, model_hash: str) -> int:
    """Agents whose live or pinned adapter was made for another base model."""
    served = func.coalesce(col(Agent.pinned_adapter_id), col(Agent.live_adapter_id))
    return session.exec(
        select(func.count())
        .select_from(Agent)
        .join(Adapter, col(Adapter.id) == served)
        .where(Adapter.model_hash != model_hash)
    ).one()


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
