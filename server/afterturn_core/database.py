"""Connections, transactions and the schema's version, on SQLite and PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry
from sqlmodel import Session

from . import schema

BUSY_TIMEOUT_MS = 15_000  # longer than any writer holds the lock, shorter than a client's patience
# A server that is gone without a word is noticed within seconds, not after TCP's own quarter of an hour.
_POSTGRESQL_WIRE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds
}


def open_database(url: str) -> Engine:
    """An engine whose every connection is set up the same way.

    SQLite: WAL, foreign keys on, a busy timeout, and transactions that take the write lock at
    once, since a read that is upgraded later fails without waiting.
    """
    if not url.startswith("sqlite"):
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_size=20,
            max_overflow=20,
            pool_timeout=10,
            connect_args=dict(_POSTGRESQL_WIRE),
        )
    Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000}, pool_size=20
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        assert isinstance(connection, SqliteConnection)
        connection.isolation_level = None  # BEGIN is ours, see below
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            f"busy_timeout={BUSY_TIMEOUT_MS}",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: object) -> None:
        writes = connection.get_execution_options().get("writes", False)  # type: ignore[attr-defined]
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")  # type: ignore[attr-defined]

    return engine


class Transaction(Session):
    """A session that is one transaction from beginning to end, and so has one connection.

    SQLAlchemy makes sure of that with each statement anew, which takes longer than many a statement.
    """

    _connection: Connection | None = None

    def connection(self, bind_arguments: Any = None, execution_options: Any = None) -> Connection:
        """The connection of the transaction."""
        if bind_arguments or execution_options:
            return super().connection(bind_arguments, execution_options)
        if self._connection is None:
            self._connection = super().connection()
        return self._connection


class Database:
    """Hands out transactions; whoever uses one never calls `commit`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = open_database(url)
        self._writing = self.engine.execution_options(writes=True)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction that may change rows; commits at the end, rolls back on any error."""
        with Transaction(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that only looks: what is changed in it is thrown away."""
        with Transaction(self.engine, expire_on_commit=False) as session:
            yield session
            if self.is_postgresql:
                # After a rollback the driver forgets which statements it has prepared, and every one would
                # be parsed and planned again.
                session.expunge_all()
                session.commit()

    @property
    def is_postgresql(self) -> bool:
        """Whether rows can be locked one by one (`SKIP LOCKED`)."""
        return self.engine.dialect.name == "postgresql"

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def ping(self) -> None:
        """Raise what the driver raises if the database does not answer."""
        with self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def check_schema(self) -> None:
        """Make sure this code may use the schema that is there (`schema.py` has the rule).

        Raises:
            SchemaError: it is older (run `afterturn migrate`), newer without room, or not there.
        """
        schema.check_schema(self.engine, self.url)

    def migrate(self) -> None:
        """Make or upgrade the schema; refuses one of a newer version that leaves this one no room."""
        schema.migrate(self.engine, self.url)

    def step_back(self) -> str:
        """Undo the last migration; returns the revision now."""
        return schema.step_back(self.engine, self.url)

    def is_newer(self) -> bool:
        """Whether a newer version made the schema."""
        return schema.is_newer(self.engine, self.url)
