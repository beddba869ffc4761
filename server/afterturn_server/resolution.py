"""From the `model` of a request to the weights that answer: decided once, at admission."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlmodel import Session
from structlog.stdlib import get_logger

from afterturn_core.errors import ModelNotFound
from afterturn_core.keys import DEFAULT_AGENT
from afterturn_core.models import Adapter, Agent

from .caller import Caller
from .lookup import Found, look_up
from .upstream import Target

BASE = "base"

log = get_logger(__name__)


@dataclass(frozen=True)
class Resolved:
    """Which agent a turn belongs to and which weights answer it."""

    agent_id: str
    target: Target
    version: int | None = None


@dataclass(frozen=True)
class Weights:
    """What adapters must fit: the base model's hash, and the folder that relative paths start from."""

    model_hash: str
    adapter_root: Path


_AGENTS = Agent.__table__  # type: ignore[attr-defined]
_ADAPTERS = Adapter.__table__  # type: ignore[attr-defined]
_WEIGHTS: tuple[ColumnElement[Any], ...] = (
    _ADAPTERS.c.name,
    _ADAPTERS.c.path,
    _ADAPTERS.c.version,
    _ADAPTERS.c.model_hash,
    _ADAPTERS.c.marks,
    _ADAPTERS.c.state,
)
# An agent and what it serves now, in one look: this runs with every request.
_SERVED = select(_AGENTS.c.id.label("agent_id"), _AGENTS.c.accept_any_model, *_WEIGHTS).select_from(
    _AGENTS.outerjoin(
        _ADAPTERS, _ADAPTERS.c.id == func.coalesce(_AGENTS.c.pinned_adapter_id, _AGENTS.c.live_adapter_id)
    )
)
_SERVED_BY_NAME = _SERVED.where(_AGENTS.c.name == bindparam("agent"))
_SERVED_BY_ID = _SERVED.where(_AGENTS.c.id == bindparam("agent"))
_VERSION = select(*_WEIGHTS).where(
    _ADAPTERS.c.agent_id == bindparam("agent"), _ADAPTERS.c.version == bindparam("number")
)


def resolve(session: Session, caller: Caller, model: str, weights: Weights) -> Resolved:
    """The weights behind `model`: an agent's live or pinned adapter, `NAME@vN`, or `base`.

    Raises:
        ModelNotFound: nothing of this caller is called so.
    """
    if "\0" in model:
        raise ModelNotFound("No model has that name.", param="model")
    name, at, number = model.rpartition("@v")
    if at and number.isascii() and number.isdigit() and len(number) < 10 and name:
        agent = _agent(session, caller, name, model)
        return _version(session, agent.agent_id, int(number), model, weights)
    if model == BASE:
        return Resolved(_owner(session, caller), Target())
    return _live(_agent(session, caller, model, model), weights)


def _agent(session: Session, caller: Caller, name: str, model: str) -> Found:
    agent = look_up(session, _SERVED_BY_NAME, {"agent": name})
    if agent is not None and (caller.agent_id is None or agent.agent_id == caller.agent_id):
        return agent
    if caller.agent_id is not None and name == model:
        own = look_up(session, _SERVED_BY_ID, {"agent": caller.agent_id})
        if own is not None and own.accept_any_model:
            return own
    raise _unknown(model)


def _owner(session: Session, caller: Caller) -> str:
    """Whose turn a request to `base` is: the key's agent, for an admin key the default one."""
    if caller.agent_id is not None:
        return caller.agent_id
    agent = look_up(session, _SERVED_BY_NAME, {"agent": DEFAULT_AGENT})
    if agent is None:
        raise ModelNotFound("An admin key must name an agent: there is none called default.", param="model")
    return str(agent.agent_id)


def _live(agent: Found, weights: Weights) -> Resolved:
    if agent.name is None:
        return Resolved(agent.agent_id, Target())
    if not _fits(agent, weights):
        # The base model was exchanged: what was trained on the old one would only disturb the new.
        log.warning("adapter_of_another_base", adapter=agent.name)
        return Resolved(agent.agent_id, Target())
    return _resolved(agent.agent_id, agent, weights)


def _version(session: Session, agent_id: str, number: int, model: str, weights: Weights) -> Resolved:
    asked = {"agent": agent_id, "number": number}
    adapter = session.connection().execute(_VERSION, asked).one_or_none() if number < 2**31 else None
    if adapter is None or adapter.state != "published" or not _fits(adapter, weights):
        raise _unknown(model)
    return _resolved(agent_id, adapter, weights)


def _fits(adapter: Found, weights: Weights) -> bool:
    return (
        adapter.path is not None
        and adapter.model_hash == weights.model_hash
        and "tainted" not in adapter.marks
    )


def _resolved(agent_id: str, adapter: Found, weights: Weights) -> Resolved:
    return Resolved(agent_id, Target(adapter.name, adapter_path(adapter.path, weights)), adapter.version)


def adapter_path(path: str, weights: Weights) -> str:
    """Where an adapter's folder is; an absolute path or a URL stands as it is."""
    return path if "://" in path else str(weights.adapter_root / path)


def _unknown(model: str) -> ModelNotFound:
    shown = model if len(model) <= 64 else f"{model[:64]}…"
    return ModelNotFound(
        f"The model `{shown}` does not exist or you do not have access to it.", param="model"
    )
