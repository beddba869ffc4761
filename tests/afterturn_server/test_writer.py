"""Jobs of many requests in one transaction, each for itself."""

import asyncio
import threading

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from afterturn_core.database import Database
from afterturn_core.errors import Unavailable
from afterturn_core.ids import new_id
from afterturn_core.models import Agent
from afterturn_server.writer import CAPACITY, Writer


@pytest.fixture
def database(template, tmp_path):
    source = template / "afterturn.db"
    (tmp_path / "afterturn.db").write_bytes(source.read_bytes())
    opened = Database(f"sqlite:///{tmp_path / 'afterturn.db'}")
    yield opened
    opened.close()


def add(name):
    def work(session: Session) -> str:
        session.add(Agent(id=new_id("agent"), name=name))
        session.flush()
        return name

    return work


def names(database):
    with database.read() as session:
        return set(session.exec(select(Agent.name)).all())


def test_jobs_are_committed_when_they_return(database):
    async def run():
        writer = Writer(database)
        assert await writer.run(add("one")) == "one"
        assert "one" in names(database)
        assert await asyncio.gather(*(writer.run(add(f"n{n}")) for n in range(100)))
        writer.close()

    asyncio.run(run())
    assert {f"n{n}" for n in range(100)} <= names(database)


def test_a_job_that_fails_takes_no_other_with_it(database):
    async def run():
        writer = Writer(database)
        gate = threading.Event()

        def hold(_session: Session) -> bool:
            return gate.wait(10)

        held = asyncio.ensure_future(writer.run(hold))
        await asyncio.sleep(0.05)  # what follows waits together, and so shares a transaction
        jobs = [writer.run(add(name)) for name in ("a", "default", "b", "a")]
        waiting = asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.sleep(0)
        gate.set()
        results = await waiting
        assert await held
        writer.close()
        return results

    results = asyncio.run(run())
    assert results[0] == "a"
    assert isinstance(results[1], IntegrityError)
    assert results[2] == "b"
    assert isinstance(results[3], IntegrityError)
    assert {"a", "b"} <= names(database)


def test_more_jobs_than_can_wait_are_refused(database):
    async def run():
        writer = Writer(database)
        gate = threading.Event()
        jobs = [asyncio.ensure_future(writer.run(lambda _session: gate.wait(10)))]
        await asyncio.sleep(0.05)
        jobs += [asyncio.ensure_future(writer.run(lambda _session: True)) for _ in range(CAPACITY)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as refused:
            await writer.run(lambda _session: True)
        assert refused.value.retry_after
        gate.set()
        assert all(await asyncio.gather(*jobs))
        writer.close()

    asyncio.run(run())
