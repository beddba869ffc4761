"""A database with so many turns in it, filled the quick way."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from sqlalchemy import make_url, update
from sqlmodel import col, select

from afterturn_core.database import Database
from afterturn_core.keys import USER_SCOPES, add_agent, add_key
from afterturn_core.models import Agent, Key, Turn
from bench.growth.conversations import AGENTS, TURNS, conversation
from bench.growth.rows import RowMaker
from bench.growth.tables import TABLES, Owner, Rows

SPAN = timedelta(days=60)  # that the conversations are spread over
FLUSH = 100  # conversations
MANY = 100_000  # from so many turns on,
ALIKE = 25  # only one conversation in so many is made word by word
Fill = Callable[[Rows], None]
QUIET = "quiet"  # made last: where it is, everything is


@dataclass(frozen=True)
class Seeded:
    """A filled database: its agents, and one more agent that never did anything.

    `conversations` were made word by word; of each there are look-alikes besides, up to `turns` in all.
    """

    database: Database
    owners: tuple[Owner, ...]
    quiet: Owner
    conversations: int
    turns: int


def seed(database: Database, turns: int, progress: Callable[[int], None]) -> Seeded:
    """Fill an empty, migrated database with `turns` turns (rounded down to whole groups of conversations).

    One that was filled before stays as it is.
    """
    alike = ALIKE if turns >= MANY else 1
    count = turns // TURNS // alike
    names = [f"agent-{number}" for number in range(AGENTS)]
    quiet = _known(database, QUIET)
    if quiet is not None:
        found = [owner for name in names if (owner := _known(database, name)) is not None]
        return Seeded(database, tuple(found), quiet, count, count * alike * TURNS)
    owners = tuple(_owner(database, name) for name in names)
    maker = RowMaker(owners, SPAN / max(count, 1))
    filling = _into_postgresql if database.is_postgresql else _into_sqlite
    with filling(database) as fill:
        for first in range(0, count, FLUSH):
            group = range(first, min(first + FLUSH, count))
            made = [maker.rows(conversation(number)) for number in group]
            fill(_joined(made))
            for number in range(1, alike):
                fill(_joined([maker.look_alike(rows, number) for rows in made]))
            progress(group.stop * alike * TURNS)
    with database.write() as session:
        session.execute(
            update(Turn).where(col(Turn.id).in_(maker.waiting)).values(state="judged", round_id=None)
        )
        for agent_id, adapter_id in maker.newest.items():
            session.get_one(Agent, agent_id).live_adapter_id = adapter_id
    return Seeded(database, owners, _owner(database, QUIET), count, count * alike * TURNS)


def _known(database: Database, name: str) -> Owner | None:
    with database.read() as session:
        found = session.exec(
            select(Agent.id, Key.id).join(Key, col(Key.agent_id) == Agent.id).where(Agent.name == name)
        ).first()
    return None if found is None else Owner(found[0], found[1], name)


def _owner(database: Database, name: str) -> Owner:
    with database.write() as session:
        agent = add_agent(session, name)
        _, key = add_key(session, agent, USER_SCOPES)
        return Owner(agent.id, key.id, name)


def _joined(parts: Sequence[Rows]) -> Rows:
    joined: Rows = {}
    for part in parts:
        for table, rows in part.items():
            joined.setdefault(table, []).extend(rows)
    return joined


@contextmanager
def _into_sqlite(database: Database) -> Iterator[Fill]:
    """Each piece is one transaction that waits for no disk: nothing is lost if this dies, since nothing was
    there."""
    connection = database.engine.raw_connection().driver_connection
    assert connection is not None
    before = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("foreign_keys", "synchronous", "cache_size")
    }
    for pragma in ("foreign_keys=OFF", "synchronous=OFF", "cache_size=-3000000"):
        connection.execute(f"PRAGMA {pragma}")

    def fill(rows: Rows) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for table, columns in _filled(rows):
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",
                [tuple(_sqlite_value(row[name]) for name in columns) for row in rows[table]],
            )
        connection.execute("COMMIT")

    try:
        yield fill
    finally:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for name, value in before.items():
            connection.execute(f"PRAGMA {name}={value}")
        database.engine.dispose()


def _sqlite_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return json.dumps(value) if isinstance(value, list | dict) else value


@contextmanager
def _into_postgresql(database: Database) -> Iterator[Fill]:
    url = make_url(database.url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # rows come in an order of their own
        connection.execute("SET synchronous_commit = off")

        def fill(rows: Rows) -> None:
            for table, columns in _filled(rows):
                with connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
                    for row in rows[table]:
                        copy.write_row([_postgresql_value(row[name]) for name in columns])

        yield fill
        connection.execute("VACUUM ANALYZE")  # as autovacuum would by and by


def _postgresql_value(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _filled(rows: Rows) -> Iterator[tuple[str, list[str]]]:
    """Tables with rows, those that others point to first, and their columns."""
    for model in TABLES:
        name = str(model.__tablename__)
        if rows.get(name):
            yield name, list(rows[name][0])
