"""PostgreSQL: every table by COPY, out of one snapshot and back in one transaction."""

import shutil
from pathlib import Path
from typing import LiteralString, cast

import psycopg
from psycopg import sql
from sqlalchemy import MetaData, create_engine, make_url

from .contents import TABLES, BackupError, Report, StoredTable

VERSION_TABLE = "alembic_version"
_PIECE_BYTES = 1 << 20


def connect(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection of its own, outside of SQLAlchemy.

    Raises:
        BackupError: the server does not answer, or refuses.
    """
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        return psycopg.connect(address, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise BackupError(f"the database does not answer: {error}") from None


def save(
    connection: "psycopg.Connection[tuple[object, ...]]", folder: Path, report: Report
) -> dict[str, StoredTable]:
    """Copy every table as of now; the connection stays in the snapshot, for whoever reads on."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    tables = _tables(connection)
    if VERSION_TABLE not in tables:
        raise BackupError("the database is empty: nothing to back up")
    (folder / TABLES).mkdir()
    sizes = {
        name: int(cast(int, _one(connection, "SELECT pg_table_size(%s::regclass)", name))) for name in tables
    }
    done, total, stored = 0, sum(sizes.values()) or 1, {}
    for name in tables:
        columns = _columns(connection, name)
        statement = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(name), _named(columns))
        rows = 0
        target = folder / TABLES / f"{name}.copy"
        with target.open("wb") as stream, connection.cursor() as cursor, cursor.copy(statement) as copy:
            for chunk in copy:
                stream.write(chunk)
                rows += bytes(chunk).count(b"\n")  # those inside of values are escaped
        stored[name] = StoredTable(columns=columns, rows=rows)
        done += sizes[name]
        report("database", done / total)
    return stored


def restore(url: str, folder: Path, tables: dict[str, StoredTable], report: Report) -> None:
    """Fill the tables, which are there in the revision of the backup, in one transaction."""
    names = [name for name in _parents_first(url) if name in tables]
    total, done = sum(table.rows for table in tables.values()) or 1, 0
    with connect(url) as connection, connection.transaction():
        connection.execute(
            sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(sql.Identifier(name) for name in names))
        )
        for name in names:
            columns = tables[name].columns
            statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(name), _named(columns))
            source = folder / TABLES / f"{name}.copy"
            with source.open("rb") as stream, connection.cursor() as cursor, cursor.copy(statement) as copy:
                shutil.copyfileobj(stream, copy, _PIECE_BYTES)
            done += tables[name].rows
            report("database", done / total)
    with connect(url) as connection:
        connection.execute("ANALYZE")


def empty(url: str) -> None:
    """Drop every table."""
    with connect(url) as connection, connection.transaction():
        for name in _tables(connection):
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))


def agents_in(url: str) -> int:
    """How many agents a database has."""
    with connect(url) as connection:
        if "agents" not in _tables(connection):
            return 0
        return int(cast(int, _one(connection, "SELECT count(*) FROM agents")))


def _tables(connection: "psycopg.Connection[tuple[object, ...]]") -> list[str]:
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
    ).fetchall()
    return [str(row[0]) for row in rows]


def _columns(connection: "psycopg.Connection[tuple[object, ...]]", table: str) -> list[str]:
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position",
        (table,),
    ).fetchall()
    return [str(row[0]) for row in rows]


def _one(
    connection: "psycopg.Connection[tuple[object, ...]]", query: LiteralString, *values: object
) -> object:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]


def _named(columns: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column) for column in columns)


def _parents_first(url: str) -> list[str]:
    """Tables in an order in which no row points to one that is not there yet; the version table is left out,
    since the migrations that made the tables have written it."""
    engine = create_engine(url)
    tables = MetaData()
    tables.reflect(engine)
    engine.dispose()
    return [table.name for table in tables.sorted_tables if table.name != VERSION_TABLE]
