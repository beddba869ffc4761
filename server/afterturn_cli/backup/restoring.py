"""Putting a backup back: into an empty install, or over one if that is wanted."""

import secrets
import shutil
import sqlite3
from pathlib import Path

import psycopg
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import bindparam, update
from sqlalchemy.exc import SQLAlchemyError

from afterturn_core.database import Database
from afterturn_core.errors import RequestError, SchemaError
from afterturn_core.models import Adapter
from afterturn_core.schema import alembic_config
from afterturn_core.settings import Settings

from ..preparation import held_folder
from . import postgresql_copy, sqlite_copy
from .contents import ADAPTERS, KEYS, BackupError, Contents, Report, check_files, read_contents, why

# SQLModel makes `__table__`, which its types do not say.
_ADAPTERS = Adapter.__table__  # type: ignore[attr-defined]


def restore(settings: Settings, path: Path, report: Report, *, force: bool) -> Contents:
    """Put the backup at `path` into the data folder and the database of the settings.

    Everything is checked before anything is changed; the database comes last, so that it never names an
    adapter that is not there.

    Raises:
        RequestError: there are agents here already, and nobody said to replace them; or the backup is of
            the other kind of database.
        SchemaError: a newer version made the backup.
        BackupError: the backup is damaged, or it cannot be put back.
        SettingsError: the data folder is in use by a running install.
    """
    contents = read_contents(path)
    url = settings.effective_database_url
    _check_kind(contents, url)
    _check_revision(contents, url)
    check_files(path, contents, report)
    with held_folder(settings.data_dir):
        try:
            if not force:
                _check_empty(settings, url)
            _put_adapters(path, contents, settings)
            _put_database(path, contents, url, report)
            _finish(path, contents, settings, url)
            _remove_others(contents, settings)
        except (OSError, sqlite3.Error, psycopg.Error, SQLAlchemyError) as error:
            raise BackupError(f"the backup could not be put back: {why(error)}") from error
    return contents


def _check_kind(contents: Contents, url: str) -> None:
    here = "sqlite" if url.startswith("sqlite") else "postgresql"
    if here != contents.database:
        raise RequestError(
            f"the backup is of {contents.database}, AFTERTURN_DATABASE_URL names {here}: a backup goes back "
            "into the kind of database that it came from"
        )


def _check_revision(contents: Contents, url: str) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config(url)).walk_revisions()}
    if contents.revision not in known:
        raise SchemaError(
            f"the backup is at revision {contents.revision}, which this version does not know: it was taken "
            "from a newer Afterturn. Install that version to restore it.",
            code="schema_newer",
        )


def _check_empty(settings: Settings, url: str) -> None:
    agents = (
        sqlite_copy.agents_in(Path(url.removeprefix("sqlite:///")))
        if url.startswith("sqlite")
        else postgresql_copy.agents_in(url)
    )
    if agents:
        raise RequestError(
            f"the database of the settings has {agents} agents already: --force replaces all that is there"
        )
    if settings.adapter_root.is_dir() and any(settings.adapter_root.iterdir()):
        raise RequestError(f"{settings.adapter_root} holds adapters already: --force replaces them")


def _put_adapters(path: Path, contents: Contents, settings: Settings) -> None:
    for adapter in contents.adapters:
        folder = _folder(settings, adapter.agent, adapter.version)
        draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
        shutil.copytree(path / ADAPTERS / adapter.agent / f"v{adapter.version}", draft)
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)


def _put_database(path: Path, contents: Contents, url: str, report: Report) -> None:
    if contents.database == "sqlite":
        sqlite_copy.restore(path, Path(url.removeprefix("sqlite:///")), report)
        return
    postgresql_copy.empty(url)
    command.upgrade(alembic_config(url), contents.revision)
    postgresql_copy.restore(url, path, contents.tables, report)


def _finish(path: Path, contents: Contents, settings: Settings, url: str) -> None:
    """Bring the schema up to date, say where the adapters lie now, and bring the keys."""
    database = Database(url)
    try:
        database.migrate()
        moved = [
            {"adapter": adapter.id, "folder": str(_folder(settings, adapter.agent, adapter.version))}
            for adapter in contents.adapters
        ]
        if moved:
            statement = update(_ADAPTERS).where(_ADAPTERS.c.id == bindparam("adapter"))
            with database.write() as session:
                session.connection().execute(statement.values(path=bindparam("folder")), moved)
    finally:
        database.close()
    if (path / KEYS).is_file():
        shutil.copyfile(path / KEYS, settings.keys_file)
        settings.keys_file.chmod(0o600)


def _remove_others(contents: Contents, settings: Settings) -> None:
    """Versions that the database, as it is now, does not know: it gives their numbers again."""
    kept = {_folder(settings, adapter.agent, adapter.version) for adapter in contents.adapters}
    for pattern in ("*/v[0-9]*", "*/.rejected/v[0-9]*"):
        for folder in settings.adapter_root.glob(pattern):
            if folder not in kept:
                shutil.rmtree(folder)


def _folder(settings: Settings, agent: str, version: int) -> Path:
    return settings.adapter_root / agent / f"v{version}"
