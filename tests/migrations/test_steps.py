"""Field case B48: every migration goes forwards and one back with rows, on both databases."""

import pytest
from alembic import command
from alembic.script import Script, ScriptDirectory
from tests.migrations.rows import (
    Contents,
    broken_references,
    columns_of,
    contents,
    fill,
    picture,
    revision_of,
    shared,
    tables_of,
)

from afterturn_core.database import open_database
from afterturn_core.schema import alembic_config

SCRIPTS = ScriptDirectory.from_config(alembic_config("sqlite://"))
ORDER = [script.revision for script in SCRIPTS.walk_revisions()][::-1]
STEPS = [script for script in SCRIPTS.walk_revisions() if script.down_revision is not None][::-1]


def test_b48_revisions_are_one_numbered_line() -> None:
    assert [f"{number:04}" for number in range(1, len(ORDER) + 1)] == ORDER
    assert SCRIPTS.get_heads() == ORDER[-1:]


def test_b48_from_empty_to_the_newest_with_no_difference_to_the_tables(url: str) -> None:
    config = alembic_config(url)
    command.upgrade(config, "head")
    command.check(config)
    command.downgrade(config, "base")
    engine = open_database(url)
    assert columns_of(engine) == {}
    engine.dispose()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.revision)
def test_b48_every_step_keeps_every_row_forwards_and_back(url: str, step: Script) -> None:
    """Three sessions, nine turns, nine feedback rows and some of all else; beside them, where the revision
    says so, what code of the revision before writes into the newer tables."""
    before, after = str(step.down_revision), step.revision
    config, engine = alembic_config(url), open_database(url)
    command.upgrade(config, before)
    old_tables, old_columns = tables_of(engine), columns_of(engine)
    fill(engine, old_tables, "before")
    rows = contents(engine)
    assert [len(rows[name]) for name in ("sessions", "turns", "feedback")] == [3, 9, 9]

    def unchanged(had: Contents) -> bool:
        kept = shared(old_columns, columns_of(engine))
        return picture(contents(engine), kept) == picture(had, kept) and not broken_references(engine)

    command.upgrade(config, after)
    assert revision_of(engine) == after
    assert unchanged(rows)
    if ORDER.index(getattr(step.module, "oldest_code", after)) <= ORDER.index(before):
        fill(engine, old_tables, "beside", first=100)
    rows = contents(engine)
    command.downgrade(config, before)
    assert revision_of(engine) == before
    assert columns_of(engine) == old_columns
    assert unchanged(rows)
    command.upgrade(config, after)
    assert unchanged(rows)
    engine.dispose()
