"""Fresh, migrated databases: SQLite always, PostgreSQL where AFTERTURN_TEST_POSTGRESQL_URL names a server."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text

from afterturn_core.database import Database

KINDS = ("sqlite", "postgresql")
SERVER = "AFTERTURN_TEST_POSTGRESQL_URL"


class Databases:
    """Hands out databases; each kind is migrated once and copied from then on."""

    def __init__(self, folder: Path) -> None:
        self._sqlite_template = folder / "template.db"
        self._postgresql_template: str | None = None

    @contextmanager
    def fresh(self, kind: str, folder: Path) -> Iterator[str]:
        """The URL of a database of this test's own. Skips the test where there is no server."""
        if kind == "sqlite":
            yield self._sqlite(folder)
            return
        _need_server()
        with self._made(f"TEMPLATE {self._template()}") as url:
            yield url

    @contextmanager
    def empty(self, kind: str, folder: Path) -> Iterator[str]:
        """As `fresh`, without any table."""
        if kind == "sqlite":
            yield f"sqlite:///{folder / 'empty.db'}"
            return
        _need_server()
        with self._made("") as url:
            yield url

    @contextmanager
    def _made(self, like: str) -> Iterator[str]:
        name = f"test_{uuid4().hex}"
        self._administer(f"CREATE DATABASE {name} {like}")
        try:
            yield _url(name)
        finally:
            self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """Drop what is left on the server."""
        if self._postgresql_template is not None:
            self._administer(f"DROP DATABASE {self._postgresql_template} WITH (FORCE)")

    def _sqlite(self, folder: Path) -> str:
        if not self._sqlite_template.is_file():
            _migrate(f"sqlite:///{self._sqlite_template}")
        copy = folder / "afterturn.db"
        shutil.copyfile(self._sqlite_template, copy)
        return f"sqlite:///{copy}"

    def _template(self) -> str:
        if self._postgresql_template is None:
            name = f"template_{uuid4().hex}"
            self._administer(f"CREATE DATABASE {name}")
            _migrate(_url(name))
            self._postgresql_template = name
        return self._postgresql_template

    def _administer(self, statement: str) -> None:
        engine = create_engine(os.environ[SERVER], isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


def _need_server() -> None:
    if not os.environ.get(SERVER):
        pytest.skip(f"{SERVER} is not set")


def _url(name: str) -> str:
    return make_url(os.environ[SERVER]).set(database=name).render_as_string(hide_password=False)


def _migrate(url: str) -> None:
    database = Database(url)
    database.migrate()
    database.close()  # with the last connection SQLite folds its write-ahead log into the file
