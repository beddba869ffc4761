"""A small gateway over HTTP with a state one can see change: what the dashboard is tested against."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from afterturn import JSON, JSONObject

ADMIN_KEY = "at-admin-0123456789abcdefghijkl"
NOW = datetime.now(UTC)


def moment(minutes_ago: float) -> str:
    """A moment as the gateway writes it."""
    return (NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")


READY: JSONObject = {
    "ready": True,
    "database": {"ok": True},
    "engine": {"ok": True, "replicas": [{"ok": True}]},
}
ENGINE: JSONObject = {"ok": True, "replicas": [True], "model": "SmolLM2-135M-Instruct", "max_model_len": 8192}
GATE: JSONObject = {
    "passed": True,
    "reasons": [],
    "real": {
        "outcome": "passed",
        "turn_id": "turn-1-3",
        "position": 12,
        "trainer": 0.83,
        "engine": 0.829,
        "tolerance": 0.083,
    },
    "learned": {"outcome": "not enough data", "turns": 5, "mean": 0.021, "low": -0.012, "high": 0.054},
    "drift": {"outcome": "passed", "kl": 0.031, "limit": 1.0, "turns": 8},
    "kept": {
        "outcome": "passed",
        "probes": 120,
        "solved_base": 0.642,
        "solved_before": 0.65,
        "solved_after": 0.633,
        "empty_before": 0.0,
        "empty_after": 0.0,
        "unfinished_before": 0.21,
        "unfinished_after": 0.17,
        "looping_before": 0.03,
        "looping_after": 0.03,
        "by_kind_after": {"arithmetic": 0.4, "facts": 0.9, "format": 0.6},
        "reasons": [],
    },
}


def a_round(number: int, state: str, *, minutes_ago: float = 10, agent: str = "default") -> JSONObject:
    """A round as `GET rounds` shows it."""
    ended = state not in {"claimed", "training", "gating"}
    lost = "probes solved fell from 0.650 to 0.583"
    gate: JSON = GATE if state == "published" else None
    if state == "rejected":
        kept = GATE["kept"]
        assert isinstance(kept, dict)
        gate = {
            **GATE,
            "passed": False,
            "reasons": [lost],
            "kept": {**kept, "outcome": "refused", "solved_after": 0.583, "reasons": [lost]},
        }
    return {
        "id": f"round_01jdzk3v8q2m4n6p8r0s{number:04d}",
        "agent": agent,
        "state": state,
        "objective": "hybrid",
        "turn_ids": [f"turn-{number}-{at}" for at in range(8)],
        "settings": {"learning_rate": 0.0003, "rank": 16},
        "metrics": {
            "loss": [1.2 / number + 0.1 * at for at in range(6, 0, -1)],
            "verdict": [0.3 / number + 0.02 * at for at in range(6, 0, -1)],
            "hint": [0.9 / number + 0.08 * at for at in range(6, 0, -1)],
            "grad_norm": [2.0, 1.7, 1.2, 1.3, 0.9, 0.7],
            "kl": 0.004 * number,
            "reward_mean": -0.25,
            "tokens": 1834,
            "left_out": {"stale": 1, "cut": 0},
            "seconds": {"load": 2.1, "update": 11.4, "gate": 7.9},
        },
        "gate": gate,
        "adapter": f"{agent}@v{number}" if state == "published" else None,
        "progress": 1.0 if ended else 0.4,
        "started_at": moment(minutes_ago),
        "finished_at": moment(minutes_ago - 1.3) if ended else None,
        "error": "loss became NaN in update 3" if state == "failed" else None,
    }


def an_adapter(
    version: int, parent: int | None, *, live: bool = False, state: str = "published", agent: str = "default"
) -> JSONObject:
    """An adapter as `GET adapters` shows it."""
    marks: list[JSON] = []
    return {
        "name": f"{agent}@v{version}",
        "agent": agent,
        "version": version,
        "parent": parent,
        "state": state,
        "live": live,
        "marks": marks,
        "round_id": f"round_01jdzk3v8q2m4n6p8r0s{version:04d}",
        "sha256": f"{version:02x}" * 32,
        "model_hash": "m" * 64,
        "created_at": moment(60 * (8 - version)),
        "gate": GATE,
    }


class ScriptedGateway:
    """Serves the state in its fields, changes it as the admin API would, and remembers what changed it."""

    def __init__(self, port: int | None = None) -> None:
        self.agents: list[JSONObject] = []
        self.rounds: list[JSONObject] = []
        self.adapters: list[JSONObject] = []
        self.stats: JSONObject = {}
        self.ready: JSONObject = READY
        self.changes: list[str] = []
        self.refusal: str | None = None
        self.admin_key = ADMIN_KEY
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port or 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def fresh(self) -> None:
        """An install on which nothing has happened."""
        self.agents = [{"name": "default", "frozen": False, "live_adapter": None}]
        self.rounds, self.adapters, self.changes, self.refusal = [], [], [], None
        self.stats = {"agents": [{"agent": "default", "min_signals": 8}], "engine": ENGINE}
        self.ready = READY

    def lived_in(self) -> None:
        """An install that has learned for a while."""
        self.fresh()
        self.agents = [
            {"name": "default", "frozen": False, "live_adapter": "default@v4"},
            {"name": "support", "frozen": True, "live_adapter": None},
        ]
        self.rounds = [
            a_round(4, "published", minutes_ago=9),
            a_round(5, "failed", minutes_ago=50),
            a_round(3, "rejected", minutes_ago=130),
            a_round(2, "published", minutes_ago=700),
            a_round(1, "published", minutes_ago=2000),
        ]
        self.adapters = [
            an_adapter(4, 2, live=True),
            an_adapter(3, 2, state="rejected"),
            an_adapter(2, 1),
            an_adapter(1, None),
        ]
        self.stats = {
            "agents": [
                {
                    "agent": "default",
                    "live_adapter": "default@v4",
                    "waiting_signals": 5,
                    "min_signals": 8,
                    "turns": {"open": 2, "observed": 1, "judged": 5, "trained": 24, "abstained": 11},
                    "signals": {"+1": 12, "0": 3, "-1": 14, "none": 4},
                    "rounds": {"published": 3, "rejected": 1, "failed": 1},
                },
                {"agent": "support", "frozen": True, "min_signals": 16},
            ],
            "engine": ENGINE,
            "waiting_texts": 3,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path == "/readyz":
            return JSONResponse(self.ready)
        if request.headers.get("authorization") != f"Bearer {self.admin_key}":
            return JSONResponse({"error": {"message": "unknown key", "code": "invalid_api_key"}}, 401)
        name = path.removeprefix("/admin/api/")
        if request.method == "POST":
            return await self._change(name, request)
        listings = {"agents": self.agents, "rounds": self.rounds, "adapters": self.adapters}
        if name in listings:
            return JSONResponse({"data": listings[name], "next": None})
        if name == "stats":
            return JSONResponse(self.stats)
        for each in self.rounds:
            if name == f"rounds/{each['id']}":
                return JSONResponse(each)
        return JSONResponse({"error": {"message": "no such round"}}, 404)

    async def _change(self, name: str, request: Request) -> Response:
        if self.refusal is not None:
            return JSONResponse({"error": {"message": self.refusal}}, 409)
        body = await request.json() if await request.body() else {}
        self.changes.append(f"{name} {body}")
        parts = name.split("/")
        if parts == ["rounds"]:
            started = a_round(6, "training", minutes_ago=0, agent=str(body["agent"]))
            self.rounds = [started, *self.rounds]
            return JSONResponse(started, 202)
        if parts[0] == "rounds" and parts[2] == "cancel":
            self.rounds = [
                {**each, "state": "cancelled"} if each["id"] == parts[1] else each for each in self.rounds
            ]
            return JSONResponse(next(each for each in self.rounds if each["id"] == parts[1]))
        target = parts[1] if parts[0] == "adapters" else f"{parts[1]}@v{body['to']}"
        self.adapters = [{**each, "live": each["name"] == target} for each in self.adapters]
        return JSONResponse({"live": target})


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
