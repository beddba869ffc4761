"""The gateway over the player, in this process, on free ports of the loopback."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.served import served

from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.keys import prepare_first_start
from afterturn_core.settings import Settings
from afterturn_server.app import create_app
from bench.clients.player import create_player

PAGE = 1000


@dataclass(frozen=True)
class Stack:
    """A running gateway; `keys` are those of its agents by name."""

    url: str
    admin: httpx.Client
    keys: dict[str, str]

    def turns(self, agent: str) -> list[dict[str, Any]]:
        """Every turn of an agent, oldest first."""
        response = self.admin.get("/turns", params={"agent": agent, "limit": PAGE})
        response.raise_for_status()
        return sorted(response.json()["data"], key=lambda turn: str(turn["id"]))


@contextmanager
def running_stack(folder: Path, agents: tuple[str, ...]) -> Iterator[Stack]:
    """Start everything; agents take whatever model name their client asks for."""
    with ExitStack() as cleanup:
        engine_url = cleanup.enter_context(served(create_player()))
        settings = Settings(data_dir=folder, engine_url=engine_url)
        database = Database(settings.effective_database_url)
        cleanup.callback(database.close)
        database.migrate()
        prepare_first_start(database, settings)
        keys = dict(line.split("=", 1) for line in (folder / "keys.env").read_text().split())
        url = cleanup.enter_context(served(create_app(settings, database, Wake(""))))
        headers = {"Authorization": f"Bearer {keys['AFTERTURN_ADMIN_KEY']}"}
        base = f"{url}/admin/api"
        admin = cleanup.enter_context(
            httpx.Client(base_url=base, headers=headers, timeout=60, trust_env=False)
        )
        yield Stack(url, admin, {agent: _agent(admin, agent) for agent in agents})


def _agent(admin: httpx.Client, name: str) -> str:
    admin.post("/agents", json={"name": name}).raise_for_status()
    admin.patch(f"/agents/{name}", json={"accept_any_model": True}).raise_for_status()
    made = admin.post("/keys", json={"agent": name, "scopes": ["inference"]})
    made.raise_for_status()
    return str(made.json()["key"])
