"""The file behind a SQLite database, recognised again: one that was moved away still takes writes, and
whoever looks for them in its place finds nothing."""

import os

from afterturn_core.database import Database


class DatabaseMoved(Exception):
    """Where the database's file was, there is none, or another one."""


class DatabaseFile:
    """The file that the open connections hold; nothing to check where the database is a server."""

    def __init__(self, database: Database) -> None:
        url = database.engine.url
        self._path = url.database if url.get_backend_name() == "sqlite" else None
        self._database = database
        self._known = self._found()

    def check(self) -> None:
        """Raises DatabaseMoved unless the file is where it was opened."""
        if self._path is not None and self._found() != self._known:
            raise DatabaseMoved("the database's file was moved")

    def adopt(self) -> None:
        """Take to another file that was put in its place: a backup, say.

        Raises:
            DatabaseMoved: there is none.
            SchemaError: it is not a database of this version.
        """
        found = self._found()
        if self._path is None or found == self._known:
            return
        if found is None:
            raise DatabaseMoved("the database's file was moved")
        self._database.engine.dispose()  # its connections hold the old file
        self._database.check_schema()
        self._known = found

    def _found(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return None
        return there.st_dev, there.st_ino
