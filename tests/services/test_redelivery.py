"""B16: Redis hands out a training message again; exactly one version comes of it, whatever happens."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from sqlmodel import select
from tests.services.conftest import Running, running, wait_until
from tests.services.redis_server import PATIENCE_S, RedisServer
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.broker import celery_app
from afterturn_core.models import Adapter, Agent, Round, Training
from afterturn_core.queues import TRAIN_QUEUE, TRAIN_ROUND, Delivery
from afterturn_core.round_plan import plan_round
from afterturn_core.settings import Settings

VISIBILITY_S = 2.0
LEASE_S = 2.0
BEAT_S = 0.5
# Our own worker on both databases, the field case's on one: they take their time.
KINDS = (("sqlite", "shipped"), ("postgresql", "shipped"), ("sqlite", "late"))


@dataclass(frozen=True)
class Trainers:
    """Two workers, one claimed round of two turns, and the stub's folder."""

    workers: tuple[Running, Running]
    round_id: str
    folder: Path
    stored: StoredTurns
    redis: RedisServer

    def began(self, fence: int) -> psutil.Process:
        """The process that trains under this fence, once there is one."""
        note = self.folder / f"began-{fence}"
        wait_until(lambda: note.is_file() and note.read_text() != "", f"somebody trains under fence {fence}")
        return psutil.Process(int(note.read_text()))

    def go(self, fence: int, end: str) -> None:
        """Let whoever holds this fence go on, and wait for its end."""
        (self.folder / f"go-{fence}").touch()
        wait_until((self.folder / f"{end}-{fence}").is_file, f"fence {fence} is {end}")

    def worker_of(self, process: psutil.Process) -> Running:
        """The worker that trains in this process, or started it."""
        pids = {process.pid, process.ppid()}
        (worker,) = (worker for worker in self.workers if worker.process.pid in pids)
        return worker

    def send(self, **options: float) -> None:
        app = celery_app(self.redis.url, delivery=Delivery(VISIBILITY_S, 0.5))
        app.send_task(TRAIN_ROUND, args=[self.round_id], queue=TRAIN_QUEUE, **options)
        app.close()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send the round's message again and again."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_S):
                self.send()

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def settle(self) -> None:
        """Wait until every message was taken and acknowledged."""
        wait_until(lambda: self.redis.waiting(TRAIN_QUEUE) == 0, "the queue is empty")
        wait_until(lambda: self.redis.in_hand() == 0, "every message is acknowledged")

    def check_one_version(self) -> None:
        with self.stored.database.read() as session:
            versions = session.exec(select(Adapter.version, Adapter.state)).all()
            used = session.exec(select(Training.round_id, Training.turn_id)).all()
            row = session.get_one(Round, self.round_id)
            assert versions == [(1, "published")]
            assert row.state == "published"
            assert sorted(used) == sorted((self.round_id, turn_id) for turn_id in row.turn_ids)
            assert len(used) == 2


@pytest.fixture
def start(
    stored: StoredTurns, redis_server: RedisServer, tmp_path: Path
) -> Iterator[Callable[[str], Trainers]]:
    """Starts two trainers of a kind: `start("late")`."""
    for _ in range(2):
        stored.judged()
    with stored.database.write() as session:
        agent = session.get_one(Agent, stored.agent_id)
        round_id = lifecycle.claim_round(session, agent, plan_round(Settings(), agent)).id
    folder = tmp_path / "stub"
    folder.mkdir()
    environment = {
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_BROKER_URL": redis_server.url,
        "AFTERTURN_VISIBILITY_TIMEOUT_S": str(VISIBILITY_S),
        "AFTERTURN_TASK_TIME_LIMIT_S": "0.9",
        "AFTERTURN_LEASE_S": str(LEASE_S),
        "STUB_FOLDER": str(folder),
    }
    with ExitStack() as stack:

        def started(kind: str) -> Trainers:
            first, second = (
                stack.enter_context(
                    running(
                        "tests.services.stub_trainer",
                        kind,
                        folder=tmp_path / "logs",
                        name=f"{kind}-{number}",
                        environment=environment,
                    )
                )
                for number in (1, 2)
            )
            for worker in (first, second):
                wait_until(worker.ready.is_file, "the worker is ready")
            return Trainers((first, second), round_id, folder, stored, redis_server)

        yield started


@pytest.mark.parametrize(("stored", "kind"), KINDS, indirect=["stored"])
def test_a_killed_trainer_is_followed_by_one_other(start: Callable[[str], Trainers], kind: str) -> None:
    """B16, kill -9 of the first worker in the middle of its training."""
    trainers = start(kind)
    with trainers.beating():
        trainers.worker_of(trainers.began(1)).process.kill()
        trainers.began(2)
        trainers.go(2, "published")
    trainers.settle()
    trainers.check_one_version()


@pytest.mark.parametrize(("stored", "kind"), KINDS, indirect=["stored"])
def test_a_frozen_trainer_wakes_up_too_late(start: Callable[[str], Trainers], kind: str) -> None:
    """B16, SIGSTOP past the lease, another one trains, SIGCONT: the first may not publish."""
    trainers = start(kind)
    with trainers.beating():
        first = trainers.began(1)
        frozen = {first, psutil.Process(trainers.worker_of(first).process.pid)}
        for process in frozen:
            process.suspend()
        trainers.began(2)
        (trainers.folder / "go-1").touch()
        for process in frozen:
            process.resume()
        trainers.go(1, "lost")
        trainers.go(2, "published")
    trainers.settle()
    trainers.check_one_version()


@pytest.mark.parametrize(("stored", "kind"), KINDS, indirect=["stored"])
def test_a_countdown_longer_than_the_visibility_time_out(start: Callable[[str], Trainers], kind: str) -> None:
    """B16: a message that waits in a worker's hands for longer than Redis lets it, and is handed on."""
    trainers = start(kind)
    trainers.send(countdown=VISIBILITY_S * 2)
    trainers.began(1)
    if kind == "late":
        (delivered,) = (trainers.folder / "delivered").iterdir()
        wait_until(lambda: len(list(delivered.iterdir())) == 2, "both workers run the one message")
    trainers.go(1, "published")
    trainers.settle()
    trainers.check_one_version()


@pytest.mark.parametrize("stored", ["sqlite"], indirect=True)
def test_the_field_cases_trainer_does_get_its_message_twice(start: Callable[[str], Trainers]) -> None:
    """B16: late acknowledgement and a training longer than the time-out; the second worker does nothing."""
    trainers = start("late")
    trainers.send()
    trainers.began(1)
    (delivered,) = (trainers.folder / "delivered").iterdir()
    wait_until(lambda: len(list(delivered.iterdir())) == 2, "the message reaches the second worker")
    trainers.go(1, "published")
    trainers.settle()
    trainers.check_one_version()


def test_a_stopped_worker_gives_its_round_back(start: Callable[[str], Trainers]) -> None:
    """Warm shutdown: SIGTERM ends the training, releases the lease, and the other worker goes on at once."""
    trainers = start("shipped")
    trainers.send()
    worker = trainers.worker_of(trainers.began(1))
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE_S) == 0
    with trainers.stored.database.read() as session:
        row = session.get_one(Round, trainers.round_id)
        assert row.state == "training"
        assert row.fence == 1
    with trainers.beating():
        trainers.began(2)
        trainers.go(2, "published")
    trainers.check_one_version()


def test_a_round_whose_process_is_killed_is_failed_and_its_turns_go_back(
    start: Callable[[str], Trainers],
) -> None:
    """B36: what the kernel does when memory runs out becomes a failed round with a reason."""
    trainers = start("shipped")
    trainers.send()
    os.kill(trainers.began(1).pid, signal.SIGKILL)

    def row() -> Round:
        with trainers.stored.database.read() as session:
            return session.get_one(Round, trainers.round_id)

    wait_until(lambda: row().state == "failed", "the round is failed")
    assert "memory" in (row().error or "")
    for turn_id in row().turn_ids:
        assert trainers.stored.load(turn_id).state == "judged"
