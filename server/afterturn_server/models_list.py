"""`GET /v1/models`: what a key may ask for."""

from datetime import UTC, datetime

from sqlmodel import Session, col, select
from starlette.requests import Request
from starlette.responses import Response

from afterturn_core.errors import ModelNotFound
from afterturn_core.models import Adapter, Agent

from .answers import ANTHROPIC_HEADER, Json, JsonResponse
from .caller import Caller
from .gateway import Gateway
from .resolution import BASE, Weights, resolve


class Models:
    """The listing and its single entries."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def all(self, request: Request) -> Response:
        """Every name that the caller may put into `model`."""
        caller = await self._gateway.caller(request, "inference")
        length = (await self._gateway.upstream.identity()).max_model_len
        cards = await self._gateway.read(lambda session: _cards(session, caller, length))
        if ANTHROPIC_HEADER in request.headers:
            return JsonResponse(_anthropics_list(cards))
        return JsonResponse({"object": "list", "data": cards})

    async def one(self, request: Request) -> Response:
        """One of them.

        Raises:
            ModelNotFound: it is not among them.
        """
        caller = await self._gateway.caller(request, "inference")
        name = request.path_params["model"]
        identity = await self._gateway.upstream.identity()
        weights = Weights(identity.model_hash, self._gateway.settings.adapter_root)

        def look(session: Session) -> Json:
            for card in _cards(session, caller, identity.max_model_len):
                if card["id"] == name:
                    return _anthropics(card) if ANTHROPIC_HEADER in request.headers else card
            resolve(session, caller, name, weights)
            raise ModelNotFound(f"The model `{name}` is not listed.", param="model")

        return JsonResponse(await self._gateway.read(look))


def _cards(session: Session, caller: Caller, length: int | None) -> list[Json]:
    agents = select(Agent).order_by(Agent.name)
    if caller.agent_id is not None:
        agents = agents.where(Agent.id == caller.agent_id)
    cards: list[Json] = []
    for agent in session.exec(agents).all():
        cards.append(_card(agent.name, int(agent.created_at.timestamp()), BASE, length))
        published = (
            select(Adapter)
            .where(Adapter.agent_id == agent.id, Adapter.state == "published")
            .order_by(col(Adapter.version).desc())
        )
        cards += [
            _card(adapter.name, int(adapter.created_at.timestamp()), BASE, length)
            for adapter in session.exec(published).all()
            if "tainted" not in adapter.marks
        ]
    return [*cards, _card(BASE, 0, None, length)]


def _anthropics_list(cards: list[Json]) -> Json:
    """The listing as Anthropic's clients read it, in one page."""
    data = [_anthropics(card) for card in cards]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}


def _anthropics(card: Json) -> Json:
    made = datetime.fromtimestamp(card["created"], UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": card["id"], "display_name": card["id"], "created_at": made}


def _card(name: str, created: int, parent: str | None, length: int | None) -> Json:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "afterturn",
        "parent": parent,
        "max_model_len": length,
    }
