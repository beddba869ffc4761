"""The install as a whole: its figures, its data going out, its data going away. Needs the admin key."""

import json
from dataclasses import dataclass, field

from afterturn.decoding import as_object, decoder
from afterturn.errors import MalformedReply
from afterturn.verb import Call
from afterturn.wire import JSONObject, query


@dataclass(frozen=True)
class AgentStats:
    """One agent's counts. `signals` by verdict: "+1", "0", "-1" and "none"; the others by state."""

    agent: str
    frozen: bool = False
    live_adapter: str | None = None
    turns: dict[str, int] = field(default_factory=dict)
    signals: dict[str, int] = field(default_factory=dict)
    disagreements: int = 0
    rounds: dict[str, int] = field(default_factory=dict)
    waiting_signals: int = 0
    min_signals: int | None = None
    running_round: str | None = None


@dataclass(frozen=True)
class EngineStats:
    """The engine as the gateway sees it; `replicas` says of each whether it answers."""

    ok: bool
    replicas: tuple[bool, ...] = ()
    model: str | None = None
    model_hash: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True)
class Stats:
    """The install at a glance. `waiting_texts` are next states that are not believed yet."""

    agents: tuple[AgentStats, ...] = ()
    engine: EngineStats | None = None
    waiting_texts: int = 0


def stats() -> Call[Stats]:
    """The install's figures."""
    return Call("GET", "/admin/api/stats", decoder(Stats), admin=True)


def export(agent: str) -> Call[JSONObject]:
    """Everything stored of an agent; `read` takes one line's JSON."""
    return Call("GET", "/admin/api/export", as_object, query(agent=agent), admin=True)


def erase(
    *,
    agent: str | None = None,
    session_id: str | None = None,
    turn_id: str | None = None,
    client_user: str | None = None,
) -> Call[JSONObject]:
    """Erase one agent's, session's, turn's or client user's data, and return the server's receipt.

    Adapters that were trained on it are marked tainted and are never live again.
    """
    named = query(agent=agent, session_id=session_id, turn_id=turn_id, client_user=client_user)
    if len(named) != 1 or not all(named.values()):
        raise ValueError("name exactly one of agent, session_id, turn_id, client_user")
    return Call("POST", "/admin/api/erase", as_object, body={**named}, admin=True)


class Lines:
    """Cuts a stream of bytes into lines at `\\n` alone: JSON may hold U+2028 and its like unescaped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[JSONObject]:
        """The objects that `chunk` completes. Raises `MalformedReply`."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return [_line(line) for line in whole if line.strip()]

    def end(self) -> list[JSONObject]:
        """The object after the last line end, if any. Raises `MalformedReply` for half of one."""
        rest, self._rest = self._rest, b""
        return [_line(rest)] if rest.strip() else []


def _line(line: bytes) -> JSONObject:
    try:
        return as_object(json.loads(line))
    except ValueError as error:
        raise MalformedReply("a line of the export is not JSON; the stream may have been cut") from error
