"""Databases of every kind that this machine has, and turns stored on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import KINDS, Databases
from tests.stored_turns import StoredTurns


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Makes fresh ones: `with databases.fresh(kind, folder) as url`."""
    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> Iterator[StoredTurns]:
    """An agent and a maker of its turns, on each kind of database."""
    with databases.fresh(request.param, tmp_path) as url:
        turns = StoredTurns(url)
        yield turns
        turns.database.close()
