"""The extractor on a real Redis: stopped warmly, idle, without a broker, over its limit (B32, B36)."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlmodel import select
from tests.services.conftest import Running, running, wait_until
from tests.services.redis_server import PATIENCE_S, RedisServer
from tests.stored_turns import StoredTurns

from afterturn_core.broker import Wake
from afterturn_core.models import Signal
from afterturn_core.queues import EXTRACT_QUEUE
from afterturn_core.time_limit import EXIT_CODE
from afterturn_extractor.worker import THREADS

AT_ONCE = THREADS["rules"]
EXTRACTOR = ("afterturn_extractor",)
TRAINER = ("afterturn_trainer", "worker")
COMPLAINT = "That's way too long. Please answer in one short sentence."


@dataclass(frozen=True)
class Bench:
    """Where an extractor's judge meets the test."""

    folder: Path
    stored: StoredTurns
    redis: RedisServer

    @contextmanager
    def extractor(self, module: str = "tests.services.slow_extractor", **settings: str) -> Iterator[Running]:
        """Run one for the length of the block; wait for `ready` oneself."""
        environment = {
            "AFTERTURN_DATABASE_URL": self.stored.url,
            "AFTERTURN_BROKER_URL": self.redis.url,
            "AFTERTURN_SWEEP_S": "3600",  # only messages move anything
            "STUB_FOLDER": str(self.folder),
            **{f"AFTERTURN_{name.upper()}": value for name, value in settings.items()},
        }
        with running(
            module, folder=self.folder / "logs", name="extractor", environment=environment
        ) as worker:
            yield worker

    def ask(self, number: int) -> list[str]:
        """Observed turns with requests of their own, and a message for each."""
        wake = Wake(self.redis.url)
        turns = [self.stored.observed(COMPLAINT, request=f"request {index}") for index in range(number)]
        for turn_id in turns:
            assert wake.judge(turn_id)
        return turns

    def begun(self) -> int:
        """Verdicts that were begun."""
        folder = self.folder / "begun"
        return len(list(folder.iterdir())) if folder.is_dir() else 0

    def go(self) -> None:
        """Let the judge answer from now on."""
        (self.folder / "go").touch()

    def judged(self, turns: list[str]) -> int:
        """How many of the turns have a verdict, each exactly one."""
        with self.stored.database.read() as session:
            found = session.exec(select(Signal.turn_id)).all()
        assert len(set(found)) == len(found), "a turn was judged twice"
        return len(set(found) & set(turns))


@pytest.fixture
def bench(stored: StoredTurns, redis_server: RedisServer, tmp_path: Path) -> Bench:
    folder = tmp_path / "bench"
    folder.mkdir()
    return Bench(folder, stored, redis_server)


def test_a_stopped_worker_ends_what_it_began_and_gives_the_rest_back(bench: Bench) -> None:
    """B32: nothing reserved is dropped at SIGTERM, and the call in flight is neither lost nor made twice."""
    with bench.extractor() as worker:
        wait_until(worker.ready.is_file, "the worker is ready")
        turns = bench.ask(3 * AT_ONCE)
        wait_until(lambda: bench.begun() == AT_ONCE, "every thread has a turn")
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: bench.redis.in_hand() <= AT_ONCE, "what was reserved is given back")
        bench.go()
        assert worker.process.wait(PATIENCE_S) == 0
    assert bench.judged(turns) == AT_ONCE
    assert bench.redis.in_hand() == 0
    assert bench.redis.waiting(EXTRACT_QUEUE) == 2 * AT_ONCE
    with bench.extractor():
        wait_until(lambda: bench.judged(turns) == len(turns), "the next worker judges the rest")


def test_a_retry_and_a_task_after_an_idle_time_succeed_without_torch(bench: Bench) -> None:
    """B36: one worker, a task, one that fails at first, one after the broker's time-outs have all passed."""
    bench.go()
    with bench.extractor() as worker:
        wait_until(worker.ready.is_file, "the worker is ready")
        first = bench.ask(1)
        wait_until(lambda: bench.judged(first) == 1, "the first task succeeds")
        retried = bench.stored.observed(COMPLAINT, request="stumble")
        assert Wake(bench.redis.url).judge(retried)
        wait_until(lambda: bench.judged([retried]) == 1, "the retried task succeeds")
        assert bench.redis.in_hand() == 0
        time.sleep(6)  # idle: longer than a read on the connection may take
        last = bench.ask(1)
        wait_until(lambda: bench.judged(last) == 1, "the task after the idle time succeeds")
        assert "libtorch" not in Path(f"/proc/{worker.process.pid}/maps").read_text()


def test_a_worker_that_starts_before_its_broker_waits_for_it(bench: Bench) -> None:
    bench.redis.stop()
    bench.go()
    with bench.extractor() as worker:
        wait_until(lambda: "waiting_for_broker" in worker.text, "the worker says that it waits")
        bench.redis.start()
        wait_until(worker.ready.is_file, "the worker is ready")
        turns = bench.ask(1)
        wait_until(lambda: bench.judged(turns) == 1, "it works")


def test_a_worker_that_waits_for_its_broker_can_be_stopped(bench: Bench) -> None:
    bench.redis.stop()
    with bench.extractor() as worker:
        wait_until(lambda: "Cannot connect" in worker.text, "the worker tries")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE_S) == 0


def test_a_worker_whose_task_hangs_ends_and_the_next_one_does_its_work(bench: Bench) -> None:
    """B36: a thread cannot be killed, so a judge that hangs for longer than the limit ends its process."""
    with bench.extractor(task_time_limit_s="1", visibility_timeout_s="2.5") as worker:
        wait_until(worker.ready.is_file, "the worker is ready")
        turns = bench.ask(1)
        assert worker.process.wait(PATIENCE_S) == EXIT_CODE
    assert "task_over_its_limit" in worker.text
    assert bench.judged(turns) == 0
    bench.go()
    with bench.extractor(sweep_s="0.5"):
        wait_until(lambda: bench.judged(turns) == 1, "the sweep finds the turn")


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        (
            EXTRACTOR,
            {"AFTERTURN_VISIBILITY_TIMEOUT_S": "600"},
            "AFTERTURN_VISIBILITY_TIMEOUT_S: 600 s is too",
        ),
        (EXTRACTOR, {"AFTERTURN_TASK_TIME_LIMIT_S": "1800"}, "AFTERTURN_VISIBILITY_TIMEOUT_S: 3600 s is too"),
        (EXTRACTOR, {"AFTERTURN_BROKER_URL": "redis://127.0.0.1:{port}/99"}, "the broker refuses it"),
        (TRAINER, {"AFTERTURN_VISIBILITY_TIMEOUT_S": "600"}, "AFTERTURN_VISIBILITY_TIMEOUT_S: 600 s is too"),
        (TRAINER, {"AFTERTURN_BROKER_URL": ""}, "AFTERTURN_BROKER_URL is empty"),
        (
            TRAINER,
            {"AFTERTURN_BROKER_URL": "redis://nobody:wrong@127.0.0.1:{port}/0"},
            "the broker refuses it",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(
    redis_server: RedisServer, tmp_path: Path, command: tuple[str, ...], settings: dict[str, str], said: str
) -> None:
    """B16: the configuration check, in every worker; exit code 2 and one line that names the setting."""
    stored = StoredTurns(f"sqlite:///{tmp_path / 'afterturn.db'}")
    stored.database.close()
    environment = {
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_BROKER_URL": redis_server.url,
        **{name: value.format(port=redis_server.port) for name, value in settings.items()},
    }
    with running(*command, folder=tmp_path, name="worker", environment=environment) as worker:
        assert worker.process.wait(PATIENCE_S) == 2
        assert said in worker.text
        assert "Traceback" not in worker.text
