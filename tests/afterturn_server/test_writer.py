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
from afterturn_server.writer import AGAIN, CAPACITY, Writer


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


def test_neighbours_with_the_same_work_are_done_in_one_call(database):
    calls = []

    def add_all(session, wanted):
        calls.append(list(wanted))
        session.add_all([Agent(id=new_id("agent"), name=name) for name in wanted])
        session.flush()
        return [name.upper() for name in wanted]

    async def run(wanted):
        writer = Writer(database)
        gate = threading.Event()
        held = asyncio.ensure_future(writer.run(lambda _session: gate.wait(10)))
        await asyncio.sleep(0.05)  # what follows waits together
        waiting = asyncio.gather(
            *(writer.run_together(add_all, name) for name in wanted[:2]),
            writer.run(add("between")),
            *(writer.run_together(add_all, name) for name in wanted[2:]),
            return_exceptions=True,
        )
        await asyncio.sleep(0)
        gate.set()
        results = await waiting
        assert await held
        writer.close()
        return results

    assert asyncio.run(run(["a", "b", "c", "d"])) == ["A", "B", "between", "C", "D"]
    assert calls == [["a", "b"], ["c", "d"]]
    calls.clear()
    e, default, between, f = asyncio.run(run(["e", "default", "f"]))
    assert (e, f) == ("E", "F")
    assert isinstance(default, IntegrityError)
    assert isinstance(between, IntegrityError)  # it is there since the first run
    assert calls == [["e", "default"], ["e"], *[["default"]] * AGAIN, ["f"]]
    assert {"e", "f"} <= names(database)
