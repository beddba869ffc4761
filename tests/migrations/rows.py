"""Rows for the tables of any revision, made from what the database itself says of them."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    inspect,
    select,
)

COUNTS = {"sessions": 3, "turns": 9, "feedback": 9}  # as in field case B48; three rows of all else
OURS = ("alembic_version", "schema_rules")  # the schema's own book-keeping
Columns = dict[str, tuple[str, ...]]
Contents = dict[str, list[dict[str, object]]]


def tables_of(engine: Engine) -> MetaData:
    """The tables as they are now."""
    found = MetaData()
    found.reflect(engine, only=lambda name, _: name not in OURS)
    return found


def columns_of(engine: Engine) -> Columns:
    """Every table's columns."""
    return {
        table.name: tuple(column.name for column in table.columns)
        for table in tables_of(engine).sorted_tables
    }


def fill(engine: Engine, tables: MetaData, prefix: str, first: int = 0) -> None:
    """Insert rows as code that knows just these tables would; `first` keeps numbers apart."""
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            count = COUNTS.get(table.name, 3)
            rows = [
                {column.name: _value(table, column, prefix, first, n) for column in table.columns}
                for n in range(count)
            ]
            connection.execute(table.insert(), rows)


def contents(engine: Engine) -> Contents:
    """All rows of all tables."""
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in tables_of(engine).sorted_tables
        }


def picture(rows: Contents, columns: Columns) -> dict[str, list[str]]:
    """Rows in these columns, in an order of their own, to be compared."""
    return {
        name: sorted(repr([row[column] for column in wanted]) for row in rows[name])
        for name, wanted in columns.items()
    }


def shared(first: Columns, second: Columns) -> Columns:
    """What both have."""
    return {
        name: tuple(column for column in columns if column in second[name])
        for name, columns in first.items()
        if name in second
    }


def broken_references(engine: Engine) -> list[str]:
    """References that lead nowhere; PostgreSQL never has any."""
    if engine.dialect.name != "sqlite":
        return []
    with engine.connect() as connection:
        return [str(row) for row in connection.exec_driver_sql("PRAGMA foreign_key_check")]


def revision_of(engine: Engine) -> str | None:
    """Where the schema is."""
    if not inspect(engine).has_table("alembic_version"):
        return None
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def _value(table: Table, column: Column[object], prefix: str, first: int, n: int) -> object:
    for reference in column.foreign_keys:
        other = reference.column.table
        if other is table:
            # A chain: each row after the first leads to the one before.
            return None if n == 0 else _name(table.name, prefix, n - 1)
        return _name(other.name, prefix, n % COUNTS.get(other.name, 3))
    kind = column.type
    if column.primary_key and isinstance(kind, String):
        return _name(table.name, prefix, n)
    if isinstance(kind, Boolean):
        return n % 2 == 0
    if isinstance(kind, Integer):
        return first + n
    if isinstance(kind, Float):
        return n / 2
    if isinstance(kind, DateTime):
        return datetime(2026, 1, 2, 3, tzinfo=UTC) + timedelta(minutes=n)
    if isinstance(kind, JSON):
        return [column.name]
    if isinstance(kind, LargeBinary):
        return bytes([n])
    return f"{prefix}-{column.name}-{n}"


def _name(table: str, prefix: str, n: int) -> str:
    return f"{prefix}-{table}-{n}"
