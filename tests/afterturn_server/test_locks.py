"""Field case B28: several processes write to one SQLite file, and nobody is told that it is locked."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func
from sqlmodel import select

from afterturn_core.models import Feedback, NextState, Round, Signal, Turn

from .test_admin import judged

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
CHATS = 50
FOREIGN_LOCK_S = 3.0
JUDGED = ("judged", "claimed")  # the beat starts a round as soon as enough turns are


@contextmanager
def beside(*arguments):
    """A process of `beside.py`; what it said is its result. Ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.afterturn_server.beside", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process):
    """Its output, once it is through; nothing may have gone wrong in it."""
    out, err = process.communicate("stop\n", timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "OperationalError" not in err
    assert "locked" not in err
    return out


def count(stack, column, *where):
    with stack.database.read() as session:
        return session.exec(select(func.count(column)).where(*where)).one()


def one_user(stack, number, failures):
    """A chat and a thumb: two writes, each acknowledged."""
    headers = {"Authorization": f"Bearer {stack.key}"}
    try:
        with httpx.Client(base_url=stack.url, headers=headers, timeout=PATIENCE_S, trust_env=False) as client:
            body = {"model": "default", "messages": [{"role": "user", "content": f"question {number}"}]}
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            thumb = {"turn_id": answer.headers["x-turn-id"], "kind": "thumb", "value": (-1) ** number}
            told = client.post("/v1/feedback", json=thumb)
            assert told.status_code == 201, told.text
    except (AssertionError, httpx.HTTPError) as error:
        failures.append(error)


def dashboard(stack, over, failures):
    """Looks at everything, again and again."""
    while not over.wait(0.5):
        for path in ("stats", "turns", "signals", "rounds", "adapters", "agents"):
            answer = stack.admin("GET", path)
            if answer.status_code != 200:
                failures.append(answer.text)


def test_b28_many_writers_readers_and_a_foreign_lock_lose_nothing(stack, capfd):
    """Fifty chats at once, each with two writes; a judge with its beat in a process of its own, a dashboard
    that polls, and twice a foreign process that holds the write lock for three seconds."""
    file = stack.settings.effective_database_url.removeprefix("sqlite:///")
    failures, over = [], threading.Event()
    watcher = threading.Thread(target=dashboard, args=(stack, over, failures))
    watcher.start()
    try:
        with beside("judge", stack.settings.effective_database_url) as judge:
            assert judge.stdout.readline() == "ready\n"
            for half in (range(CHATS // 2), range(CHATS // 2, CHATS)):
                with beside("lock", file, str(FOREIGN_LOCK_S)) as foreign:
                    assert foreign.stdout.readline() == "locked\n"
                    users = [threading.Thread(target=one_user, args=(stack, n, failures)) for n in half]
                    for user in users:
                        user.start()
                    for user in users:
                        user.join()
                    ended(foreign)
            deadline = time.monotonic() + PATIENCE_S
            while count(stack, Turn.id, Turn.state.in_(JUDGED)) < CHATS and not failures:
                assert judge.poll() is None, judge.communicate()[1]
                assert time.monotonic() < deadline, "the judge did not come to an end"
                time.sleep(0.5)
            ended(judge)
    finally:
        over.set()
        watcher.join()
    assert failures == []
    assert count(stack, Turn.id) == CHATS
    assert count(stack, Feedback.id) == CHATS
    assert count(stack, NextState.id, NextState.believed == True) == CHATS  # noqa: E712 - SQL
    assert count(stack, Signal.turn_id.distinct()) == CHATS
    assert count(stack, Turn.id, Turn.state.in_(JUDGED)) == CHATS
    captured = capfd.readouterr()
    for text in (captured.out, captured.err):
        assert "OperationalError" not in text
        assert "database is locked" not in text


def test_b28_claims_in_two_processes_wait_for_each_other(stack):
    turns = judged(stack, 4)
    url = stack.settings.effective_database_url
    with beside("claim", url, "40") as first, beside("claim", url, "40") as second:
        claimed = [int(ended(process)) for process in (first, second)]
    assert sum(claimed) >= 40  # whoever finds the other's round running tries again
    with stack.database.read() as session:
        rounds = session.exec(select(Round)).all()
        assert [row.state for row in rounds] == ["cancelled"] * sum(claimed)
        assert all(sorted(row.turn_ids) == sorted(turns) for row in rounds)
        assert [session.get_one(Turn, turn_id).state for turn_id in turns] == ["judged"] * 4


@pytest.mark.parametrize("writes", [False, True])
def test_b28_every_connection_of_the_gateways_pool_is_set_up_alike(stack, writes):
    engine = stack.database.engine.execution_options(writes=writes)
    connections = []
    try:
        # A transaction that writes holds the lock, so those are looked at one after the other.
        for _ in range(1 if writes else engine.pool.size()):
            connections.append(engine.connect())
            for pragma, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("busy_timeout", 15_000)):
                assert connections[-1].exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
    finally:
        for connection in connections:
            connection.close()
