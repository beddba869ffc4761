"""The schema's version: making it, going back by one, and which code may use which schema.

Code runs on the schema it was written with and on every newer one whose migrations left it room (new
columns empty or with a default of the database's own): each migration names the `oldest_code` that may
stay beside it, and the database carries that name, since older code does not have the newer scripts.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from .errors import SchemaError

RULES_TABLE = "schema_rules"


def alembic_config(url: str) -> Config:
    """Alembic's configuration for this database, wherever the package is installed."""
    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


def check_schema(engine: Engine, url: str) -> None:
    """Make sure this code may use the schema that is there.

    Raises:
        SchemaError: it is older (run `afterturn migrate`), newer without room for this code, or not there.
    """
    scripts = ScriptDirectory.from_config(alembic_config(url))
    with engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
        oldest_code = _oldest_code(connection)
    known = _known(scripts)
    if current == scripts.get_current_head():
        return
    if current is None:
        raise SchemaError("the database is empty: run `afterturn migrate`")
    if current in known:
        raise SchemaError(
            f"the database is at revision {current}, behind {scripts.get_current_head()}: "
            "run `afterturn migrate`"
        )
    if oldest_code not in known:
        raise SchemaError(
            f"the database is at revision {current}, which this version does not know: it was made by a "
            "newer Afterturn. Install that version, or restore a backup made before the upgrade.",
            code="schema_newer",
        )


def migrate(engine: Engine, url: str) -> None:
    """Make or upgrade the schema; a newer one that leaves this code room stays as it is.

    Raises:
        SchemaError: the schema is a newer version's, and not for this code.
    """
    if is_newer(engine, url):
        check_schema(engine, url)
        return
    command.upgrade(alembic_config(url), "head")


def step_back(engine: Engine, url: str) -> str:
    """Undo the last migration, so that the version before this one may run; returns the revision now.

    Raises:
        SchemaError: nothing lies before, or the schema is a newer version's.
    """
    scripts = ScriptDirectory.from_config(alembic_config(url))
    with engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    if current is None or current not in _known(scripts):
        raise SchemaError("the database is empty, or a newer version's: this version cannot go back from it")
    before = scripts.get_revision(current).down_revision
    if not isinstance(before, str):
        raise SchemaError(f"revision {current} is the first one: nothing lies before it")
    command.downgrade(alembic_config(url), before)
    return before


def is_newer(engine: Engine, url: str) -> bool:
    """Whether a newer version made the schema that is there."""
    scripts = ScriptDirectory.from_config(alembic_config(url))
    with engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    return current is not None and current not in _known(scripts)


def note_oldest_code(connection: Connection, scripts: ScriptDirectory, revision: str | None) -> None:
    """Write down which code may use the schema as of `revision`, once there is a table for it."""
    if revision is None or not inspect(connection).has_table(RULES_TABLE):
        return
    line = list(scripts.walk_revisions("base", revision))[::-1]
    order = [script.revision for script in line]
    # A migration that says nothing leaves no room.
    named = [getattr(script.module, "oldest_code", script.revision) for script in line]
    oldest = max(named, key=order.index)
    connection.execute(text(f"DELETE FROM {RULES_TABLE}"))
    connection.execute(
        text(f"INSERT INTO {RULES_TABLE} (id, oldest_code) VALUES (1, :oldest)"), {"oldest": oldest}
    )


def _oldest_code(connection: Connection) -> str | None:
    if not inspect(connection).has_table(RULES_TABLE):
        return None
    found = connection.execute(
        text(f"SELECT oldest_code FROM {RULES_TABLE} WHERE id = 1")
    ).scalar_one_or_none()
    return None if found is None else str(found)


def _known(scripts: ScriptDirectory) -> set[str]:
    return {script.revision for script in scripts.walk_revisions()}


def _migrations() -> Path:
    packaged = Path(__file__).parent / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "migrations"
