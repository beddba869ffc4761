"""Databases of every kind that this machine has, and turns stored on them; vLLM only when asked for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import KINDS, Databases
from tests.stored_turns import StoredTurns


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """vLLM takes a minute to start and an environment of its own: it runs only when asked for."""
    if os.environ.get("AFTERTURN_TEST_VLLM") == "1" or "vllm" in config.option.markexpr:
        return
    left = [item for item in items if item.get_closest_marker("vllm")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("vllm")]


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
