"""How much a database does for something, whatever else the machine is doing."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event

from afterturn_core.database import Database

EVERY = 10  # instructions of SQLite's machine between two counts


@dataclass(frozen=True)
class Work:
    """What its reading statements take together, and the one that takes most.

    SQLite: instructions of its virtual machine. PostgreSQL: pages touched.
    """

    units: int
    statements: int
    largest: str


def work_of(database: Database, act: Callable[[], object]) -> Work:
    """Do `act` and count what its reads would take, done once more one by one."""
    seen: list[tuple[str, Any]] = []

    def note(_c: object, _u: object, statement: str, parameters: Any, _x: object, _many: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        act()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    count = _pages if database.is_postgresql else _instructions
    with database.engine.connect() as connection:
        each = [(count(connection, statement, parameters), statement) for statement, parameters in seen]
        connection.rollback()
    largest = max(each, default=(0, ""))
    return Work(sum(units for units, _ in each), len(each), " ".join(largest[1].split()))


def _instructions(connection: Connection, statement: str, parameters: Any) -> int:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    counted = 0

    def step() -> int:
        nonlocal counted
        counted += EVERY
        return 0

    driver.set_progress_handler(step, EVERY)
    try:
        driver.execute(statement, parameters).fetchall()
    finally:
        driver.set_progress_handler(None, 0)
    return counted


def _pages(connection: Connection, statement: str, parameters: Any) -> int:
    explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
    plan = explained.scalar_one()[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
