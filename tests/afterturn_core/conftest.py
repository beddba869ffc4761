"""A migrated database for each test, copied from one made once."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterturn_core.database import Database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and no rows."""
    path = tmp_path_factory.mktemp("schema") / "afterturn.db"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Iterator[Database]:
    """An empty database of this version."""
    shutil.copy(empty_database, tmp_path / "afterturn.db")
    opened = Database(f"sqlite:///{tmp_path / 'afterturn.db'}")
    yield opened
    opened.close()
