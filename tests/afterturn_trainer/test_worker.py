"""The trainer's worker: one process a round, none of whose state the worker shares."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.broker import running_broker
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.broker import Wake
from afterturn_core.models import Agent, Round
from afterturn_core.round_plan import plan_round
from afterturn_core.settings import Settings
from afterturn_trainer.round_exit import RoundExits, owner_of
from afterturn_trainer.worker import NICENESS, RoundProcesses

PATIENCE_S = 90.0  # a round's process loads torch
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@dataclass
class NotedExits:
    """Wants every round but those named, and notes what it is told."""

    unwanted: tuple[str, ...] = ()
    told: list[tuple[str, int]] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    def is_wanted(self, round_id: str) -> bool:
        return round_id not in self.unwanted

    def ended(self, round_id: str, pid: int, code: int) -> None:
        self.told.append((round_id, code))

    def killed_at_stop(self, round_id: str, pid: int) -> None:
        self.killed.append(round_id)


def exit_with(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; sys.exit({code})")


def test_a_round_runs_once_however_often_its_message_comes() -> None:
    rounds = RoundProcesses(SLEEP, NotedExits())
    try:
        assert rounds.take("round_1")
        wait_until(lambda: "round_1" in rounds.running)
        assert not rounds.take("round_1")
        assert rounds.take("round_2")
        assert not rounds.take("round_2")
        assert list(rounds.running) == ["round_1"]
        os.kill(rounds.running["round_1"], signal.SIGKILL)
        wait_until(lambda: list(rounds.running) == ["round_2"])
        assert rounds.ended == (("round_1", -signal.SIGKILL),)
        assert rounds.take("round_1")
    finally:
        rounds.close()


def test_the_rounds_id_is_the_last_argument_and_exit_codes_are_kept() -> None:
    exits = NotedExits()
    rounds = RoundProcesses(exit_with("int(sys.argv[1])"), exits)
    try:
        for code in ("0", "3"):
            rounds.take(code)
            wait_until(lambda code=code: (code, int(code)) in rounds.ended)
    finally:
        rounds.close()
    assert exits.told == [("0", 0), ("3", 3)]


def test_a_round_that_is_over_gets_no_process() -> None:
    rounds = RoundProcesses(exit_with("0"), NotedExits(unwanted=("old",)))
    try:
        rounds.take("old")
        rounds.take("new")
        wait_until(lambda: ("new", 0) in rounds.ended)
        assert rounds.ended == (("new", 0),)
    finally:
        rounds.close()


def test_rounds_give_way_to_serving() -> None:
    rounds = RoundProcesses(SLEEP, NotedExits())
    try:
        rounds.take("round_1")
        wait_until(lambda: "round_1" in rounds.running)
        process = psutil.Process(rounds.running["round_1"])
        wait_until(lambda: process.nice() == min(19, psutil.Process().nice() + NICENESS))
    finally:
        rounds.close()


def test_closing_stops_what_runs_and_drops_what_waits() -> None:
    exits = NotedExits()
    rounds = RoundProcesses(SLEEP, exits)
    rounds.take("round_1")
    rounds.take("round_2")
    wait_until(lambda: "round_1" in rounds.running)
    pid = rounds.running["round_1"]
    rounds.close()
    assert not psutil.pid_exists(pid)
    assert exits.killed == ["round_1"]
    assert not rounds.take("round_3")


def claimed_round(stored: StoredTurns) -> tuple[str, str]:
    """A round of one turn, claimed; and the turn."""
    turn_id = stored.judged()
    with stored.database.write() as session:
        agent = session.get_one(Agent, stored.agent_id)
        return lifecycle.claim_round(session, agent, plan_round(Settings(), agent)).id, turn_id


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredTurns]:
    turns = StoredTurns(f"sqlite:///{tmp_path / 'afterturn.db'}")
    yield turns
    turns.database.close()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("code", "said"), [(-9, "memory"), (-11, "SIGSEGV"), (1, "exit code 1"), (2, "exit code 2")]
)
def test_a_process_that_ends_without_ending_its_round_fails_it(
    stored: StoredTurns, begun: bool, code: int, said: str
) -> None:
    """B36: exit codes and signals are reported, whether the round was begun or not even that."""
    round_id, turn_id = claimed_round(stored)
    if begun:
        with stored.database.write() as session:
            lifecycle.acquire_lease(session, round_id, owner_of(4711), 60)
    exits = RoundExits(stored.database)
    exits.ended(round_id, 4711, code)
    with stored.database.read() as session:
        row = session.get_one(Round, round_id)
    assert row.state == "failed"
    assert said in (row.error or "")
    assert stored.load(turn_id).state == "judged"
    assert not exits.is_wanted(round_id)


def test_a_process_that_ends_says_nothing_about_a_round_of_another(stored: StoredTurns) -> None:
    round_id, turn_id = claimed_round(stored)
    exits = RoundExits(stored.database)
    assert exits.is_wanted(round_id)
    with stored.database.write() as session:
        lifecycle.acquire_lease(session, round_id, "elsewhere:1", 60)
    assert not exits.is_wanted(round_id)
    exits.ended(round_id, 4711, -9)
    exits.killed_at_stop(round_id, 4711)
    with stored.database.read() as session:
        row = session.get_one(Round, round_id)
    assert row.state == "training"
    assert stored.load(turn_id).state == "claimed"
    assert not exits.is_wanted(round_id)


def test_a_round_that_nobody_can_go_on_with_fails(stored: StoredTurns) -> None:
    """Given back by one process, and the next ones end before they can take it."""
    round_id, turn_id = claimed_round(stored)
    with stored.database.write() as session:
        lifecycle.release_lease(session, lifecycle.acquire_lease(session, round_id, owner_of(4711), 60))
    exits = RoundExits(stored.database)
    wait_until(lambda: exits.is_wanted(round_id))
    exits.ended(round_id, 4712, 2)
    with stored.database.read() as session:
        assert session.get_one(Round, round_id).state == "failed"
    assert stored.load(turn_id).state == "judged"


def test_a_round_that_was_killed_at_stop_is_free_at_once(stored: StoredTurns) -> None:
    round_id, _ = claimed_round(stored)
    with stored.database.write() as session:
        lifecycle.acquire_lease(session, round_id, owner_of(4711), 3600)
    exits = RoundExits(stored.database)
    exits.killed_at_stop(round_id, 4711)
    wait_until(lambda: exits.is_wanted(round_id))
    with stored.database.write() as session:
        assert lifecycle.acquire_lease(session, round_id, "elsewhere:1", 60).fence == 2


def test_a_round_that_failed_by_itself_keeps_its_own_reason(stored: StoredTurns) -> None:
    round_id, _ = claimed_round(stored)
    with stored.database.write() as session:
        lease = lifecycle.acquire_lease(session, round_id, owner_of(4711), 60)
        lifecycle.fail(session, lease, "the engine is away")
    RoundExits(stored.database).ended(round_id, 4711, 1)
    with stored.database.read() as session:
        assert session.get_one(Round, round_id).error == "the engine is away"


def test_the_worker_never_loads_torch_and_its_rounds_end_with_it(stored: StoredTurns, tmp_path: Path) -> None:
    """B36: training is spawned, and a process of a round that cannot even begin fails it with a reason."""
    round_id, _ = claimed_round(stored)

    def state() -> str:
        with stored.database.read() as session:
            return session.get_one(Round, round_id).state

    ready = tmp_path / "trainer.ready"
    with running_broker(tmp_path / "broker") as broker_url:
        environment = {
            **os.environ,
            "AFTERTURN_DATABASE_URL": stored.url,
            "AFTERTURN_BROKER_URL": broker_url,
            "AFTERTURN_DATA_DIR": str(tmp_path),
            "AFTERTURN_ENGINE_URL": "http://127.0.0.1:9",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "afterturn_trainer", "worker", "--ready-file", str(ready)],
            env=environment,
        )
        try:
            wait_until(ready.is_file)
            assert Wake(broker_url).train(round_id)
            wait_until(lambda: bool(psutil.Process(process.pid).children()))
            child = psutil.Process(process.pid).children()[0]
            wait_until(lambda: "libtorch" in mapped(child.pid) or not child.is_running())
            # No engine answers there: the round fails, in its own process.
            wait_until(lambda: state() == "failed")
            assert "libtorch" not in mapped(process.pid)
            children = psutil.Process(process.pid).children(recursive=True)
        finally:
            process.terminate()
            code = process.wait(PATIENCE_S)
        assert code == 0
        wait_until(lambda: not any(child.is_running() for child in children))


def mapped(pid: int) -> str:
    """The files that a process has in its memory."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
