"""SQLite's own way to copy a database that is in use."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .contents import DATABASE, BackupError, Report

PAGES = 4096  # copied between two reports
PATIENCE_S = 15.0


@contextmanager
def saved(database: Path, folder: Path, report: Report) -> Iterator[sqlite3.Connection]:
    """Copy the database as it is now into `folder`; gives the open copy.

    A read transaction holds the moment: what others commit meanwhile goes to the log and delays nobody.
    """
    if not database.is_file():
        raise BackupError(f"there is no database at {database}")
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as copy:
        with closing(sqlite3.connect(database, timeout=PATIENCE_S, isolation_level=None)) as source:
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(copy, pages=PAGES, progress=_telling(report))
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
        yield copy


def restore(folder: Path, database: Path, report: Report) -> None:
    """Replace what is in `database` by the copy, in one transaction: after a crash it is as it was."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        closing(sqlite3.connect(f"file:{folder / DATABASE}?mode=ro&immutable=1", uri=True)) as copy,
        closing(sqlite3.connect(database, timeout=PATIENCE_S, isolation_level=None)) as target,
    ):
        copy.backup(target, pages=PAGES, progress=_telling(report))


def agents_in(database: Path) -> int:
    """How many agents a database has; none if it is not there."""
    if not database.is_file():
        return 0
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'agents'").fetchone():
            return 0
        return int(connection.execute("SELECT count(*) FROM agents").fetchone()[0])


def _telling(report: Report) -> Callable[[int, int, int], None]:
    return lambda _status, remaining, total: report("database", 1 - remaining / max(total, 1))
