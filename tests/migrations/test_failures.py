"""Field case B48: copied parents, a migration that fails, several migrators, other versions' schemas."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Engine, inspect, text
from tests.migrations.conftest import Probe
from tests.migrations.rows import (
    columns_of,
    contents,
    fill,
    picture,
    revision_of,
    tables_of,
)
from tests.migrations.test_steps import ORDER

from afterturn_cli.ports import free_ports
from afterturn_core.database import Database, open_database
from afterturn_core.errors import SchemaError
from afterturn_core.schema import alembic_config

COPY_SESSIONS = (
    "    with op.batch_alter_table('sessions', recreate=RECREATE) as table:\n"
    "        table.add_column(sa.Column('mood', sa.String(), nullable=True))\n"
)
HEADER = "RECREATE = 'always' if op.get_bind().dialect.name == 'sqlite' else 'auto'\n"
MINUTE_S = 60


def upgrade_body(*lines: str, note: str = "") -> str:
    text = "".join(f"    {line}\n" for line in lines)
    return f"{note}def upgrade():\n    {HEADER}{text}{COPY_SESSIONS}def downgrade():\n    pass\n"


@pytest.fixture
def filled(url: str) -> Engine:
    """The newest schema with three sessions, nine turns, nine feedback rows and some of all else."""
    command.upgrade(alembic_config(url), "head")
    engine = open_database(url)
    fill(engine, tables_of(engine), "row")
    return engine


def test_b48_copying_a_parent_keeps_the_children_that_would_be_deleted_with_it(
    filled: Engine, url: str, probe: Probe
) -> None:
    cascading = (
        "op.create_table('notes', sa.Column('id', sa.Integer(), primary_key=True), "
        "sa.Column('session_id', sa.String(), sa.ForeignKey('sessions.id', ondelete='CASCADE')))",
        "op.execute(\"INSERT INTO notes SELECT 1, id FROM sessions WHERE id = 'row-sessions-1'\")",
    )
    had, columns = contents(filled), columns_of(filled)
    command.upgrade(probe(url, upgrade_body(*cascading)), "head")
    assert revision_of(filled) == "probe"
    assert picture(contents(filled), columns) == picture(had, columns)
    assert contents(filled)["notes"] == [{"id": 1, "session_id": "row-sessions-1"}]
    filled.dispose()


def test_b48_a_migration_that_fails_in_the_middle_changes_nothing(
    filled: Engine, url: str, probe: Probe
) -> None:
    had, columns = contents(filled), columns_of(filled)
    body = upgrade_body("op.execute('DELETE FROM feedback')").replace(
        "def downgrade", "    raise RuntimeError('the power went')\ndef downgrade"
    )
    with pytest.raises(RuntimeError, match="the power went"):
        command.upgrade(probe(url, body), "head")
    assert revision_of(filled) == ORDER[-1]
    assert columns_of(filled) == columns
    assert picture(contents(filled), columns) == picture(had, columns)
    command.check(alembic_config(url))
    filled.dispose()


def test_b48_a_migration_that_breaks_a_reference_changes_nothing(
    filled: Engine, url: str, probe: Probe
) -> None:
    had, columns = contents(filled), columns_of(filled)
    with pytest.raises(Exception, match=r"broke references|violates foreign key"):
        command.upgrade(probe(url, upgrade_body("op.execute('DELETE FROM turns')")), "head")
    assert picture(contents(filled), columns) == picture(had, columns)
    filled.dispose()


@pytest.mark.parametrize("begun", [None, ORDER[0]], ids=["from nothing", "from the first revision"])
def test_b48_migrators_at_once_are_one_after_the_other(url: str, begun: str | None) -> None:
    config, engine = alembic_config(url), open_database(url)
    if begun is not None:
        command.upgrade(config, begun)
        fill(engine, tables_of(engine), "row")
    had, columns = contents(engine), columns_of(engine)
    environment = {**os.environ, "AFTERTURN_DATABASE_URL": url}
    migrators = [
        subprocess.Popen(
            [sys.executable, "-m", "afterturn_cli", "migrate"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    told = [migrator.communicate(timeout=2 * MINUTE_S)[0] for migrator in migrators]
    assert [migrator.returncode for migrator in migrators] == [0, 0], told
    assert revision_of(engine) == ORDER[-1]
    if begun is not None:
        assert picture(contents(engine), columns) == picture(had, columns)
    command.check(config)
    engine.dispose()


def sql_of(engine: Engine, table: str) -> str:
    """How SQLite wrote a table down; PostgreSQL is not asked, it has a name for everything."""
    if engine.dialect.name != "sqlite":
        return ""
    with engine.connect() as connection:
        asked = text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
        return str(connection.execute(asked, {"name": table}).scalar_one())


def test_b48_constraints_have_names_that_a_migration_can_drop(url: str) -> None:
    command.upgrade(alembic_config(url), "head")
    engine = open_database(url)
    looked = inspect(engine)
    for table in columns_of(engine):
        assert looked.get_pk_constraint(table)["name"] == f"pk_{table}"
        for constraint in looked.get_foreign_keys(table):
            expected = f"fk_{table}_{constraint['constrained_columns'][0]}_{constraint['referred_table']}"
            # SQLAlchemy does not read the name of a reference that came with its column: SQLite is asked.
            assert constraint["name"] == expected or f"CONSTRAINT {expected} REFERENCES" in sql_of(
                engine, table
            )
        for unique in looked.get_unique_constraints(table):
            assert str(unique["name"]).startswith(f"uq_{table}_")
    engine.dispose()


@pytest.mark.parametrize("room", [True, False], ids=["with room", "without room"])
def test_older_code_uses_a_newer_schema_only_where_that_leaves_it_room(
    filled: Engine, url: str, probe: Probe, room: bool
) -> None:
    """Two versions beside each other during an upgrade: the newer one's migration says who may stay."""
    had = contents(filled)
    body = upgrade_body(note=f"oldest_code = {ORDER[-1]!r}\n" if room else "")
    config = probe(url, body)
    command.upgrade(config, "head")
    database = Database(url)
    if room:
        database.check_schema()
        database.migrate()
        assert database.is_newer()
    else:
        for attempt in (database.check_schema, database.migrate):
            with pytest.raises(SchemaError, match="newer Afterturn"):
                attempt()
    with pytest.raises(SchemaError, match="cannot go back"):
        database.step_back()
    assert revision_of(filled) == "probe"
    assert [len(rows) for rows in contents(filled).values()] == [len(rows) for rows in had.values()]
    database.close()
    filled.dispose()


@pytest.mark.parametrize(
    "program",
    [
        ("afterturn_cli", "migrate"),
        ("afterturn_cli", "migrate", "--back"),
        ("afterturn_server",),
        ("afterturn_extractor",),
        ("afterturn_trainer", "round", "round_x"),
    ],
    ids=" ".join,
)
def test_b48_a_newer_versions_database_ends_every_process_with_2(
    tmp_path: Path, program: tuple[str, ...], probe: Probe
) -> None:
    url = f"sqlite:///{tmp_path / 'newer.db'}"
    command.upgrade(probe(url, upgrade_body()), "head")
    environment = {
        **os.environ,
        "AFTERTURN_DATABASE_URL": url,
        "AFTERTURN_DATA_DIR": str(tmp_path),
        "AFTERTURN_PORT": str(free_ports(1)[0]),
    }
    ended = subprocess.run(
        [sys.executable, "-m", *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * MINUTE_S,
    )
    assert ended.returncode == 2, ended.stderr
    assert "newer" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_going_back_stops_at_the_first_revision(url: str) -> None:
    database = Database(url)
    database.migrate()
    for expected in ORDER[-2::-1]:
        assert database.step_back() == expected
    with pytest.raises(SchemaError, match="first one"):
        database.step_back()
    database.migrate()
    database.check_schema()
    database.close()
