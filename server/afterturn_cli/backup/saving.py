"""Taking a backup of a running install."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psycopg

from afterturn_core.disk import sync
from afterturn_core.settings import Settings

from ..adapter_check import check_adapter
from . import postgresql_copy, sqlite_copy
from .contents import (
    ADAPTERS,
    CONTENTS,
    FORMAT,
    KEYS,
    BackupError,
    Contents,
    Report,
    StoredAdapter,
    StoredTable,
    list_files,
    why,
)

ATTEMPTS = 3  # a live adapter can only be missing if it was replaced and pruned while we copied
Ask = Callable[[str], list[tuple[Any, ...]]]

_PUBLISHED = """
    SELECT adapters.id, adapters.name, agents.name, adapters.version, adapters.path,
           adapters.id = coalesce(agents.pinned_adapter_id, agents.live_adapter_id, '')
    FROM adapters JOIN agents ON agents.id = adapters.agent_id
    WHERE adapters.state = 'published' AND adapters.path IS NOT NULL ORDER BY adapters.id"""


@dataclass(frozen=True)
class _Moment:
    """The database as of one moment: `ask` looks at that very moment."""

    kind: Literal["sqlite", "postgresql"]
    tables: dict[str, StoredTable]
    ask: Ask


class _LiveGone(Exception):
    """The folder of an adapter that was live at the moment of the copy is gone by now."""


def back_up(settings: Settings, path: Path, report: Report) -> Contents:
    """Write a backup to `path`, which is not there yet; it appears when it is whole.

    First the database as of one moment, then the adapters that it knows: those are never changed.

    Raises:
        BackupError: it cannot be taken; nothing is left behind.
    """
    if path.exists():
        raise BackupError(f"{path} is there already: name a folder that is not")
    draft = path.with_name(f".{path.name}.part")
    for _ in range(ATTEMPTS):
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(mode=0o700, parents=True)
            contents = _fill(settings, draft, report)
            draft.rename(path)
            sync(path.parent)
            return contents
        except _LiveGone:
            continue
        except (OSError, sqlite3.Error, psycopg.Error) as error:
            raise BackupError(f"the backup could not be taken: {why(error)}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    raise BackupError("an adapter was live and then gone, three times: its folder is missing")


def _fill(settings: Settings, draft: Path, report: Report) -> Contents:
    with _copied(settings, draft, report) as moment:
        revision = str(moment.ask("SELECT version_num FROM alembic_version")[0][0])
        turns = int(moment.ask("SELECT count(*) FROM turns")[0][0])
        adapters, left_out = _copy_adapters(moment.ask(_PUBLISHED), settings, draft, report)
    if settings.keys_file.is_file():
        shutil.copyfile(settings.keys_file, draft / KEYS)
        (draft / KEYS).chmod(0o600)
    contents = Contents(
        format=FORMAT,
        created_at=datetime.now(UTC),
        database=moment.kind,
        revision=revision,
        turns=turns,
        tables=moment.tables,
        adapters=adapters,
        left_out=left_out,
        files=list_files(draft, report),
    )
    table = draft / CONTENTS
    table.write_text(contents.model_dump_json(indent=1) + "\n", "utf-8")
    sync(table)
    sync(draft)
    return contents


@contextmanager
def _copied(settings: Settings, draft: Path, report: Report) -> Iterator[_Moment]:
    url = settings.effective_database_url
    if url.startswith("sqlite"):
        with sqlite_copy.saved(Path(url.removeprefix("sqlite:///")), draft, report) as copy:
            yield _Moment("sqlite", {}, lambda query: copy.execute(query).fetchall())
        return
    with postgresql_copy.connect(url) as connection:
        tables = postgresql_copy.save(connection, draft, report)
        yield _Moment("postgresql", tables, lambda query: connection.execute(query.encode()).fetchall())


def _copy_adapters(
    rows: list[tuple[Any, ...]], settings: Settings, draft: Path, report: Report
) -> tuple[list[StoredAdapter], list[str]]:
    copied: list[StoredAdapter] = []
    left_out: list[str] = []
    for number, (adapter_id, name, agent, version, path, live) in enumerate(rows, start=1):
        report("adapters", number / len(rows))
        if "://" in path:
            continue  # in a store of its own, where it stays
        target = draft / ADAPTERS / agent / f"v{version}"
        try:
            copy_folder(settings.adapter_root / path, target)
        except (FileNotFoundError, shutil.Error) as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, shutil.Error) and (settings.adapter_root / path).is_dir():
                raise
            if live:
                raise _LiveGone from None
            left_out.append(name)
            continue
        finding = check_adapter(target)
        if not finding.ok:
            raise BackupError(f"{name} is damaged on disk: {', '.join(finding.problems)}")
        copied.append(StoredAdapter(id=adapter_id, name=name, agent=agent, version=version, live=bool(live)))
    return copied, left_out


def copy_folder(source: Path, target: Path, copy: Callable[[str, str], str] = shutil.copy2) -> None:
    """Copy an adapter; moments that are forgotten meanwhile, as of one that is live no more, stay out."""
    try:
        shutil.copytree(source, target, copy_function=copy)
    except shutil.Error as error:
        gone = [Path(name).parent == source and not Path(name).exists() for name, *_ in error.args[0]]
        if not source.is_dir() or not all(gone):
            raise
        shutil.copytree(source, target, dirs_exist_ok=True)
