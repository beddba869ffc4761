"""What a backup's folder holds, and its table of contents: `backup.json`, written last.

backup.json              this
database.sqlite          SQLite: a copy of the file
tables/NAME.copy         PostgreSQL: each table as COPY writes it, all from one snapshot
adapters/AGENT/vN/…      every published adapter with its manifest
keys.env                 the keys of the first start, if they are there
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterturn_core.disk import sync
from afterturn_core.errors import AfterturnError

FORMAT = 1
CONTENTS = "backup.json"
DATABASE = "database.sqlite"
TABLES = "tables"
ADAPTERS = "adapters"
KEYS = "keys.env"

Report = Callable[[str, float], None]
"""Is told what is being done, and what share of it is done (0 to 1)."""


class BackupError(AfterturnError):
    """A backup that cannot be taken, read or put back; the message says why."""

    code = "backup_failed"


class StoredFile(BaseModel):
    """One file: its SHA-256 in hex and its length in bytes."""

    model_config = ConfigDict(frozen=True)

    sha256: str
    bytes: int


class StoredTable(BaseModel):
    """One table's columns, in the order of the copy, and its number of rows."""

    model_config = ConfigDict(frozen=True)

    columns: list[str]
    rows: int


class StoredAdapter(BaseModel):
    """An adapter in the backup; `live` if its agent serves it."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    # Both name a folder, which must not lead out of where adapters lie.
    agent: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")
    version: int = Field(ge=1)
    live: bool


class Contents(BaseModel):
    """The table of contents; `files` by path inside the folder."""

    model_config = ConfigDict(frozen=True)

    format: int
    created_at: datetime
    database: Literal["sqlite", "postgresql"]
    revision: str
    turns: int
    tables: dict[str, StoredTable]
    adapters: list[StoredAdapter]
    left_out: list[str]
    files: dict[str, StoredFile]

    @property
    def bytes(self) -> int:
        """Length of all files together."""
        return sum(file.bytes for file in self.files.values())


def list_files(folder: Path, report: Report) -> dict[str, StoredFile]:
    """Checksums of everything in a folder, each file made safe on the disk first."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in paths) or 1
    done, listed = 0, {}
    for path in paths:
        sync(path)
        listed[path.relative_to(folder).as_posix()] = StoredFile(
            sha256=checksum(path), bytes=path.stat().st_size
        )
        done += path.stat().st_size
        report("checksums", done / total)
    return listed


def read_contents(folder: Path) -> Contents:
    """A backup's table of contents.

    Raises:
        BackupError: it is none, or one of a format that this version does not know.
    """
    try:
        contents = Contents.model_validate_json((folder / CONTENTS).read_bytes())
    except FileNotFoundError:
        raise BackupError(f"{folder} is no backup: it holds no {CONTENTS}") from None
    except (OSError, ValidationError) as error:
        raise BackupError(f"{CONTENTS} of {folder} cannot be read: {error}") from None
    if contents.format != FORMAT:
        raise BackupError(f"{folder} has format {contents.format}; this version reads {FORMAT}")
    return contents


def check_files(folder: Path, contents: Contents, report: Report) -> None:
    """Compare every file with its checksum.

    Raises:
        BackupError: one is missing or differs.
    """
    done, total = 0, contents.bytes or 1
    for name, file in contents.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise BackupError(f"{name} is missing from {folder}")
        if checksum(path) != file.sha256:
            raise BackupError(f"{name} in {folder} is not what was written: its checksum differs")
        done += file.bytes
        report("checking", done / total)


def checksum(path: Path) -> str:
    """SHA-256 in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def why(error: Exception) -> str:
    """An error of the system or of a database in a few words."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
