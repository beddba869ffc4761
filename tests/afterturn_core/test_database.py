"""B28: every connection is set up alike, and writers wait for one another instead of failing."""

import threading

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from afterturn_core.database import Database
from afterturn_core.errors import SchemaError
from afterturn_core.ids import new_id
from afterturn_core.models import Agent


def test_b28_pragmas_hold_on_every_connection(database):
    connections = [database.engine.connect() for _ in range(5)]
    for connection in connections:
        for pragma, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("busy_timeout", 15_000)):
            assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
        connection.close()


def test_b28_read_then_write_from_many_sides_loses_nothing(database):
    with database.write() as session:
        session.add(Agent(id="a", name="a"))
    other = Database(database.url)
    failures = []

    def count_up(opened):
        try:
            for _ in range(20):
                with opened.write() as session:
                    agent = session.get_one(Agent, "a")
                    agent.next_version = agent.next_version + 1
                    session.add(agent)
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=count_up, args=(opened,)) for opened in (database, other) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert failures == []
    with database.read() as session:
        assert session.get_one(Agent, "a").next_version == 121


def test_an_error_rolls_back_the_whole_transaction(database):
    def add_twice(session: Session) -> None:
        session.add(Agent(id=new_id("agent"), name="same"))
        session.flush()
        session.add(Agent(id=new_id("agent"), name="same"))
        session.flush()

    with pytest.raises(IntegrityError), database.write() as session:
        add_twice(session)
    with database.read() as session:
        assert session.exec(select(Agent)).all() == []


def test_the_schema_of_another_version_is_refused_with_what_to_do(tmp_path, database):
    database.check_schema()
    database.migrate()
    fresh = Database(f"sqlite:///{tmp_path / 'new' / 'empty.db'}")
    with pytest.raises(SchemaError, match="afterturn migrate"):
        fresh.check_schema()
    fresh.close()
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.exec_driver_sql("UPDATE schema_rules SET oldest_code = '9999'")
    for attempt in (database.check_schema, database.migrate):
        with pytest.raises(SchemaError, match="newer"):
            attempt()


def test_looks_throw_changes_away_and_keep_prepared_statements(databases, tmp_path):
    """A driver that sees a rollback forgets its statements, and every one is parsed and planned anew."""
    with databases.fresh("postgresql", tmp_path) as url:
        opened = Database(url)
        with opened.write() as session:
            session.add(Agent(id="a", name="a"))
        for _ in range(8):
            with opened.read() as session:
                session.get_one(Agent, "a").name = "other"
        with opened.read() as session:
            assert session.get_one(Agent, "a").name == "a"
            prepared = session.connection().exec_driver_sql("SELECT statement FROM pg_prepared_statements")
            assert any("FROM agents" in statement for statement in prepared.scalars())
        opened.close()
