"""One run: a real install under traffic, killed process by process, then looked at."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from afterturn_cli.supervisor import Ports, Stack
from afterturn_cli.watch import Notice
from afterturn_core.database import Database
from bench.kills.checks import Counts, count, lost, restless, served_wrongly, trained_wrongly
from bench.kills.postgresql import PostgresqlServer
from bench.kills.strike import strike
from bench.kills.talk import AcknowledgedFeedback, AcknowledgedTurn, Talker
from bench.waiting import wait_until

TALKERS = 3
MIN_SIGNALS = 4
BURST = 20  # kills between two looks whether rounds still get through
START_S = 180.0
QUIET_S = 600.0
BETWEEN_S = (1.0, 4.0)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What a run did and found; `violations` is empty when nothing was lost and nothing trained twice."""

    kills: dict[str, int]
    seconds: float
    acknowledged_turns: int
    acknowledged_streams: int
    acknowledged_feedback: int
    not_acknowledged: dict[str, int]
    restarts: dict[str, int]
    before: Counts
    after: Counts
    live: str
    violations: list[str]


@dataclass(frozen=True)
class Plan:
    """What a run shall do; `let_publish_s`: seconds to wait for a publication after each burst of kills."""

    model: Path
    folder: Path
    postgresql: bool
    kills: int
    seed: int
    let_publish_s: float = 120.0
    between_s: tuple[float, float] = BETWEEN_S


def run(plan: Plan, say: Say) -> Outcome:
    """Run it. Raises ServiceFailed if the install does not come up or cannot be kept up."""
    with ExitStack() as exits:
        server = exits.enter_context(_server()) if plan.postgresql else None
        stack = exits.enter_context(_stack(plan, None if server is None else server.url, say))
        database = Database(stack.settings.effective_database_url)
        exits.callback(database.close)
        return _Run(plan, stack, server, database, say).whole()


class _Run:
    def __init__(
        self, plan: Plan, stack: Stack, server: PostgresqlServer | None, database: Database, say: Say
    ) -> None:
        self._plan = plan
        self._stack = stack
        self._server = server
        self._database = database
        self._say = say
        self._chance = random.Random(plan.seed)
        self._talkers = [
            Talker(stack.url, stack.api_key, plan.seed * 1000 + number) for number in range(TALKERS)
        ]

    def whole(self) -> Outcome:
        """Talk, kill, stop talking, wait, look."""
        started = time.monotonic()
        for talker in self._talkers:
            talker.start()
        try:
            self._until_published(0)  # a first round, so that there is something live to lose
            before = count(self._database)
            kills = self._kill()
            self._until_published(self._published())  # after the last kill too, rounds still get through
        finally:
            for talker in self._talkers:
                talker.stop()
            for talker in self._talkers:
                talker.join()
        violations = self._quiet()
        seconds = time.monotonic() - started
        turns, feedback, failures = self._heard(violations)
        violations += lost(self._database, turns, feedback)
        violations += trained_wrongly(self._database)
        violations += served_wrongly(self._database, self._stack.settings.adapter_root, "default")
        live = self._ask_once(violations)
        return Outcome(
            kills=dict(kills),
            seconds=round(seconds, 1),
            acknowledged_turns=len(turns),
            acknowledged_streams=sum(turn.streamed for turn in turns),
            acknowledged_feedback=len(feedback),
            not_acknowledged=dict(failures.most_common()),
            restarts=self._stack.restart_counts,
            before=before,
            after=count(self._database),
            live=live,
            violations=violations,
        )

    def _kill(self) -> Counter[str]:
        done: Counter[str] = Counter()
        published = self._published()
        while done.total() < self._plan.kills:
            time.sleep(self._chance.uniform(*self._plan.between_s))  # at moments that nothing else sets
            self._stack.watch.raise_failure()
            target = strike(self._stack, self._server, self._chance)
            if target is None:
                continue
            done[target] += 1
            self._say(f"kill {done.total()}: {target}")
            if done.total() % BURST == 0:
                self._until_published(published)
                published = self._published()
        return done

    def _until_published(self, before: int) -> None:
        """Wait until more rounds are published than `before`; bounded, since kills may well prevent it."""

        def more() -> bool:
            self._stack.watch.raise_failure()
            return self._published() > before

        patience_s = self._plan.let_publish_s
        try:
            wait_until(more, "a round is published", patience_s=patience_s, every_s=0.2)
        except TimeoutError:
            self._say(f"no round was published within {patience_s:g} s")
        else:
            self._say(f"{self._published()} rounds published")

    # Our own connection may have been cut by the kill of its server.
    @retry(
        retry=retry_if_exception_type(OperationalError),
        stop=stop_after_delay(START_S),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    def _published(self) -> int:
        return count(self._database).rounds.get("published", 0)

    def _quiet(self) -> list[str]:
        self._stack.wait_ready(START_S)
        # What waits for a round may go on waiting: no further round starts by itself.
        self._admin("PATCH", "agents/default", {"min_signals": 1_000_000})
        try:
            wait_until(lambda: not restless(self._database), "all is quiet", patience_s=QUIET_S, every_s=0.3)
        except TimeoutError:
            return [f"it did not come to rest: {restless(self._database)}"]
        return []

    def _heard(
        self, violations: list[str]
    ) -> tuple[list[AcknowledgedTurn], list[AcknowledgedFeedback], Counter[str]]:
        turns: list[AcknowledgedTurn] = []
        feedback: list[AcknowledgedFeedback] = []
        failures: Counter[str] = Counter()
        for talker in self._talkers:
            turns += talker.heard.turns
            feedback += talker.heard.feedback
            failures += talker.heard.failures
            violations += talker.heard.lies
        return turns, feedback, failures

    def _ask_once(self, violations: list[str]) -> str:
        """The live adapter answers; returns its name."""
        answer = httpx.post(
            f"{self._stack.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {self._stack.api_key}", "X-Afterturn-Store": "off"},
            json={
                "model": "default",
                "messages": [{"role": "user", "content": "Who answers?"}],
                "max_tokens": 4,
            },
            timeout=60,
            trust_env=False,
        )
        listed = self._admin("GET", "adapters?agent=default&limit=500").json()["data"]
        live = next((each["name"] for each in listed if each["live"]), "base")
        if answer.status_code != 200:
            violations.append(f"the live adapter does not answer: HTTP {answer.status_code} {answer.text}")
        elif answer.headers["x-adapter"] != live:
            violations.append(f"{live} is live, and {answer.headers['x-adapter']} answered")
        return str(live)

    def _admin(self, method: str, path: str, body: dict[str, int] | None = None) -> httpx.Response:
        answer = httpx.request(
            method,
            f"{self._stack.url}/admin/api/{path}",
            headers={"Authorization": f"Bearer {self._stack.admin_key}"},
            json=body,
            timeout=60,
            trust_env=False,
        )
        answer.raise_for_status()
        return answer


@contextmanager
def _server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    server.create()
    try:
        yield server
    finally:
        server.stop()


def _stack(plan: Plan, database_url: str | None, say: Say) -> Stack:
    env = {
        "AFTERTURN_MODEL": str(plan.model),
        "AFTERTURN_DATABASE_URL": database_url or "",
        "AFTERTURN_ENGINE_URL": "",
        "AFTERTURN_BROKER_URL": "",
        "AFTERTURN_MAX_MODEL_LEN": "1024",
        "AFTERTURN_ENGINE_THREADS": "1",
        "AFTERTURN_TRAINER_THREADS": "1",
        "AFTERTURN_MIN_SIGNALS": str(MIN_SIGNALS),
        "AFTERTURN_MAX_ROUND_TURNS": "16",
        "AFTERTURN_LEARNING_RATE": "1e-3",
        "AFTERTURN_SWEEP_S": "0.5",
        "AFTERTURN_IDLE_S": "5",
        "AFTERTURN_LEASE_S": "4",
        "AFTERTURN_ROUND_BACKOFF_S": "0.5",
    }

    def report(notice: Notice) -> None:
        if notice.kind in ("ended", "killed"):
            first, _, tail = notice.text.partition("\n")
            say(f"  {notice.service}: {first}")
            if "SIGKILL" not in first and tail:
                say(tail)

    return Stack(data_dir=plan.folder / "data", ports=Ports.free(), env=env, start_s=START_S, report=report)
