"""Every listing, and everything that the workers look at again and again: how long, and how much is read."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx
from sqlmodel import col, select

from afterturn_core import lifecycle
from afterturn_core.broker import Wake
from afterturn_core.keys import ADMIN, add_key
from afterturn_core.models import Turn
from afterturn_core.settings import Settings
from afterturn_extractor.scheduling import start_due_rounds
from afterturn_extractor.sweep import Sweep
from afterturn_server.app import create_app
from bench.growth.seeding import Seeded
from bench.growth.work import Work, work_of

NOT_DUE = 1_000_000  # signals that a round would need: looking costs the same, and nothing starts


@dataclass(frozen=True)
class PageCost:
    """One page or task over one database: the median of several looks, and what one look reads."""

    ms: float
    work: Work


class Pages:
    """The pages and tasks of one database. A context manager: it holds an event loop and a gateway.

    `limit` is how many entries a page shows. The gateway's engine is away; no page needs it.
    """

    def __init__(self, seeded: Seeded, folder: Path, limit: int = 50) -> None:
        self._limit = limit
        self._seeded = seeded
        database = seeded.database
        self._settings = Settings(
            data_dir=folder,
            engine_url="http://127.0.0.1:9",
            min_signals=NOT_DUE,
            max_wait_s=1e9,
            database_timeout_s=600,
        )
        with database.write() as session:
            key, _ = add_key(session, None, (ADMIN,))
        self._sweep = Sweep(database, self._settings, Wake(""))
        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(self._settings, database, Wake(""))),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {key}"},
            timeout=600,
        )
        with database.read() as session:
            after = select(Turn).order_by(col(Turn.id)).offset(seeded.turns // 2).limit(1)
            middle = session.exec(after).one()
            trained = select(Turn).where(
                Turn.agent_id == seeded.owners[0].agent_id, Turn.state == "trained", Turn.id >= middle.id
            )
            self._middle = session.exec(trained.order_by(col(Turn.id)).limit(1)).one()

    def __enter__(self) -> "Pages":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def all(self) -> dict[str, Callable[[], object]]:
        """Everything by name."""
        busy, quiet, turn = self._seeded.owners[0].name, self._seeded.quiet.name, self._middle
        queries = {
            "turns": "turns",
            "turns, a later page": f"turns?after={turn.id}",
            "turns of an agent": f"turns?agent={busy}",
            "turns of a quiet agent": f"turns?agent={quiet}",
            "turns of an agent, judged": f"turns?agent={busy}&state=judged",
            "turns, claimed": "turns?state=claimed",
            "turns, observed": "turns?state=observed",
            "turns, side": "turns?kind=side",
            "turns of a quiet agent, side": f"turns?agent={quiet}&kind=side",
            "turns of a session": f"turns?session_id={turn.session_id}",
            "turns of a session by name": "turns?session_id=trip-planning",
            "turns of a round": f"turns?round_id={turn.round_id or 'round_none'}",
            "turn by reply": f"turns?response_id={turn.response_id}",
            "signals": "signals",
            "signals of an agent": f"signals?agent={busy}",
            "signals of a quiet agent": f"signals?agent={quiet}",
            "signals, explicit": "signals?source=explicit",
            "rounds": "rounds",
            "rounds of an agent": f"rounds?agent={busy}",
            "rounds of a quiet agent": f"rounds?agent={quiet}",
            "rounds, failed": "rounds?state=failed",
            "adapters": "adapters",
            "adapters of an agent": f"adapters?agent={busy}",
            "adapters of a quiet agent": f"adapters?agent={quiet}",
            "adapters, candidates": "adapters?state=candidate",
            "agents": "agents",
            "keys": "keys",
        }
        pages = {name: self._page(f"/admin/api/{query}") for name, query in queries.items()}
        pages["sessions"] = self._page("/v1/sessions")
        pages["stats"] = self._page("/admin/api/stats")
        return pages | {
            "sweep": self._sweep.once,
            "rounds due": lambda: start_due_rounds(self._seeded.database, self._settings),
            "turns of the next round": self._claimable,
        }

    def _page(self, query: str) -> Callable[[], object]:
        path = f"{query}{'&' if '?' in query else '?'}limit={self._limit}"

        def look() -> None:
            response = self._loop.run_until_complete(self._client.get(path))
            if response.status_code != 200:
                raise RuntimeError(f"{path}: {response.status_code} {response.text[:200]}")

        return look

    def _claimable(self) -> None:
        with self._seeded.database.read() as session:
            lifecycle.claimable(session, self._seeded.owners[0].agent_id, 64)


def compare(many: Sequence[Pages], seeded: Sequence[Seeded], looks: int) -> dict[str, list[PageCost]]:
    """Each page over each database, one after the other, `looks` times."""
    found: dict[str, list[PageCost]] = {}
    every = [pages.all() for pages in many]
    for name in every[0]:
        times: list[list[float]] = [[] for _ in many]
        for pages in every:
            pages[name]()
        for _ in range(looks):
            for pages, taken in zip(every, times, strict=True):
                began = time.perf_counter()
                pages[name]()
                taken.append(1000 * (time.perf_counter() - began))
        found[name] = [
            PageCost(round(statistics.median(taken), 2), work_of(one.database, pages[name]))
            for pages, taken, one in zip(every, times, seeded, strict=True)
        ]
    return found
