"""The first start, when two gateways make it at once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlmodel import select
from tests.databases import KINDS, Databases

from afterturn_core.database import Database
from afterturn_core.keys import DEFAULT_AGENT, add_agent, prepare_first_start
from afterturn_core.models import Agent, Key
from afterturn_core.settings import Settings

PATIENCE_S = 60.0


@pytest.fixture(params=KINDS)
def fresh(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> Iterator[Database]:
    with databases.fresh(request.param, tmp_path) as url:
        database = Database(url)
        yield database
        database.close()


def test_the_second_of_two_first_starts_finds_what_the_first_made(fresh: Database, tmp_path: Path) -> None:
    """On PostgreSQL both see no agent, and the second's insert waits for the first's commit, and fails."""
    settings = Settings(data_dir=tmp_path / "data")
    second: list[bool] = []
    thread = threading.Thread(target=lambda: second.append(prepare_first_start(fresh, settings)))
    with fresh.write() as session:
        add_agent(session, DEFAULT_AGENT)
        thread.start()
        if fresh.is_postgresql:
            _until_somebody_waits(fresh)
    thread.join(PATIENCE_S)
    assert second == [False]
    assert not settings.keys_file.exists()


def test_many_first_starts_at_once_make_one_agent_and_one_pair_of_keys(
    fresh: Database, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    together = threading.Barrier(4)
    firsts: list[bool] = []

    def start() -> None:
        together.wait()
        firsts.append(prepare_first_start(fresh, settings))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(firsts) == [False, False, False, True]
    with fresh.read() as session:
        assert len(session.exec(select(Agent)).all()) == 1
        assert len(session.exec(select(Key)).all()) == 2


def _until_somebody_waits(database: Database) -> None:
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with database.engine.connect() as connection:
            if connection.execute(waiting).scalar_one():
                return
        assert time.monotonic() < deadline, "the second start does not wait"
        time.sleep(0.02)
