"""Runs migrations: one migrator at a time, foreign keys off around SQLite's table copies."""

from alembic import context
from sqlalchemy import Connection, text
from sqlmodel import SQLModel

from afterturn_core import models
from afterturn_core.database import open_database
from afterturn_core.schema import note_oldest_code
from afterturn_core.settings import load_settings

MIGRATOR_LOCK = 0x61667465  # any fixed number: PostgreSQL's advisory lock for the one migrator
PATIENCE_MS = 600_000  # a second migrator waits for the first, however many rows that one copies


def migrate(connection: Connection) -> None:
    """Upgrade or downgrade in one transaction on an open connection."""
    assert models.Turn.__tablename__ == "turns"  # the tables must be imported to be compared
    sqlite = connection.dialect.name == "sqlite"
    if sqlite:
        _pragma(connection, "foreign_keys=OFF")
        _pragma(connection, f"busy_timeout={PATIENCE_MS}")
    connection = connection.execution_options(writes=True)
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=True,
        compare_type=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        if not sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATOR_LOCK})"))
        before = context.get_context().get_current_revision()
        context.run_migrations()
        after = context.get_context().get_current_revision()
        if after != before:
            note_oldest_code(connection, context.script, after)
        if sqlite:
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise RuntimeError(f"the migration broke references: {broken[:5]}")
    if sqlite:
        connection.commit()
        _pragma(connection, "foreign_keys=ON")


def _pragma(connection: Connection, setting: str) -> None:
    """Below SQLAlchemy, which would begin a transaction first. Inside one the pragma for foreign keys does
    nothing, and dropping a table that is copied would cascade into its children."""
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute(f"PRAGMA {setting}")


url = context.config.get_main_option("sqlalchemy.url") or load_settings().effective_database_url
engine = open_database(url)
try:
    with engine.connect() as connection:
        migrate(connection)
finally:
    engine.dispose()
