"""A stack that is stopped or killed in the middle of everything goes on where it was (B32)."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from dotenv import dotenv_values
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from redis import Redis
from sqlalchemy.exc import OperationalError
from sqlmodel import col, func, select
from tests.acceptance.conftest import wait_until
from tests.acceptance.up import Up, running_up
from tests.databases import Databases

from afterturn import Afterturn
from afterturn_cli.ports import free_ports
from afterturn_core.database import Database
from afterturn_core.models import RoundTurn, Signal, Training, Turn

pytestmark = pytest.mark.acceptance

COMPLAINT = "That's way too long. Please answer in one short sentence."


@dataclass
class Install:
    """One data folder and database, and the `afterturn up` that runs on it at the moment."""

    folder: Path
    database_url: str
    model: Path
    ports: list[int] = field(default_factory=lambda: free_ports(2))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def key(self, name: str) -> str:
        return str(dotenv_values(self.folder / "data/keys.env")[name])

    def client(self) -> Afterturn:
        return Afterturn(
            self.url, self.key("AFTERTURN_API_KEY"), self.key("AFTERTURN_ADMIN_KEY"), keep_events=False
        )

    def up(self) -> AbstractContextManager[Up]:
        variables = {
            "AFTERTURN_DATA_DIR": str(self.folder / "data"),
            "AFTERTURN_DATABASE_URL": self.database_url,
            "AFTERTURN_MODEL": str(self.model),
            "AFTERTURN_MAX_MODEL_LEN": "1024",
            "AFTERTURN_PORT": str(self.ports[0]),
            "AFTERTURN_ENGINE_PORT": str(self.ports[1]),
            "AFTERTURN_ENGINE_THREADS": "1",
            "AFTERTURN_TRAINER_THREADS": "1",
            "AFTERTURN_LEARNING_RATE": "1e-3",
            "AFTERTURN_MIN_SIGNALS": "1000000",
            "AFTERTURN_SWEEP_S": "0.5",
            "AFTERTURN_IDLE_S": "86400",
            "AFTERTURN_LEASE_S": "4",
        }
        return running_up(variables, self.folder / "screen")


class Said:
    """One conversation with an agent."""

    def __init__(self, install: Install, api_key: str, agent: str) -> None:
        self._openai = OpenAI(base_url=f"{install.url}/v1", api_key=api_key, max_retries=0)
        self._agent = agent
        self.messages: list[ChatCompletionMessageParam] = []

    def say(self, text: str) -> str:
        """Send a message; returns the id of the turn that answers it."""
        self.messages.append({"role": "user", "content": text})
        answer = self._openai.chat.completions.with_raw_response.create(
            model=self._agent, messages=self.messages, max_tokens=8, seed=1
        )
        reply = answer.parse().choices[0].message.content or ""
        self.messages.append({"role": "assistant", "content": reply})
        return str(answer.headers["x-turn-id"])

    def close(self) -> None:
        self._openai.close()


def half_a_round(
    client: Afterturn, up: Up, database: Database, teach: Callable[[], None]
) -> tuple[str, psutil.Process]:
    """Start a round of `other` and hold its process in the middle; gives both."""
    for _ in range(5):  # a round that ends before we hold it is no use
        teach()
        round_id = client.rounds.start("other").id
        process = _held(client, up, database, round_id)
        if process is not None:
            return round_id, process
    raise AssertionError("every round ended before it could be held")


def _held(client: Afterturn, up: Up, database: Database, round_id: str) -> psutil.Process | None:
    """The round's process, stopped while it trains; None if the round ended first."""
    wait_until(lambda: (client.rounds.get(round_id).progress or 0) >= 0.1, "the round works")
    try:
        process = up.child("round", round_id)
        process.suspend()
    except (AssertionError, psutil.NoSuchProcess):
        return None
    if not client.rounds.get(round_id).ended and _writable(database):
        return process
    process.resume()
    wait_until(lambda: client.rounds.get(round_id).ended, "the round ends")
    return None


@pytest.mark.parametrize(
    ("kind", "number"),
    [("sqlite", signal.SIGKILL), ("sqlite", signal.SIGTERM), ("postgresql", signal.SIGKILL)],
)
def test_everything_goes_on_after_a_restart(
    kind: str, number: signal.Signals, databases: Databases, tiny_model: Path, tmp_path: Path
) -> None:
    """Ten turns wait for a next state, five for a round, a verdict is being written, a round is half done."""
    with databases.fresh(kind, tmp_path) as url:
        install, database = Install(tmp_path, url, tiny_model), Database(url)
        try:
            _stop_and_start(install, database, number)
        finally:
            database.close()


def _stop_and_start(install: Install, database: Database, number: signal.Signals) -> None:
    with (
        install.up() as up,
        install.client() as client,
    ):
        key = install.key("AFTERTURN_API_KEY")
        waiting = [Said(install, key, "default") for _ in range(10)]
        open_ids = [each.say(f"What is the number {n}?") for n, each in enumerate(waiting)]
        judged_ids = [Said(install, key, "default").say(f"And the letter {n}?") for n in range(5)]
        for turn_id in judged_ids:
            client.feedback.thumb(turn_id, up=True)
        flying = Said(install, key, "default").say("And this?")
        client.agents.create("other")
        other = client.keys.create(agent="other", scopes=["inference", "feedback"]).key
        wait_until(lambda: _states(database, judged_ids) == {"judged"}, "verdicts are there")

        def teach() -> None:
            turn_ids = [Said(install, other, "other").say(f"Say {n}.") for n in range(6)]
            with Afterturn(install.url, other, keep_events=False) as theirs:
                for turn_id in turn_ids:
                    theirs.feedback.correct(turn_id, "Please use other words.")
            wait_until(lambda: _states(database, turn_ids) == {"judged"}, "verdicts are there")

        round_id, process = half_a_round(client, up, database, teach)
        extractor = up.child("afterturn_extractor")
        extractor.suspend()
        client.feedback.thumb(flying, up=False)
        children = up.children()
        with database.write() as session:
            # While this is held the verdict can be reached and not stored.
            session.exec(select(Turn).where(Turn.id == flying).with_for_update()).one()
            extractor.resume()
            broker = _broker(install, up)
            wait_until(lambda: broker.hlen("unacked") > 0, "the verdict is being written")
            broker.close()
            up.process.send_signal(number)
            if number == signal.SIGKILL:
                wait_until(lambda: not any(child.is_running() for child in children), "everything is dead")
        if number == signal.SIGTERM:
            process.resume()  # a process that is held cannot end in order
        up.process.wait()
        wait_until(lambda: not any(child.is_running() for child in children), "everything has ended")

    assert _states(database, open_ids) == {"open"}
    assert _states(database, judged_ids) == {"judged"}
    # Stopped in order it is finished; killed it waits.
    assert _states(database, [flying]) <= (
        {"observed"} if number == signal.SIGKILL else {"observed", "judged"}
    )

    with (
        install.up(),
        install.client() as client,
    ):
        after = waiting[3].say(COMPLAINT)
        waiting[3].say("Go on.")
        assert client.turns.get(after).parent_id == open_ids[3]
        wait_until(lambda: _states(database, [open_ids[3], flying]) == {"judged"}, "both are judged")
        _let_train(client, round_id)
    assert _states(database, open_ids[:3] + open_ids[4:]) == {"open"}
    assert _states(database, judged_ids) == {"judged"}
    with database.read() as session:
        verdicts = session.exec(select(func.count()).where(Signal.turn_id == flying)).one()
        assert verdicts == 1
        of_round = session.exec(select(RoundTurn.signal_id).where(RoundTurn.round_id == round_id)).all()
        used = session.exec(select(Training.signal_id)).all()
    assert of_round
    assert {name: used.count(name) for name in of_round} == dict.fromkeys(of_round, 1)


def _let_train(client: Afterturn, round_id: str) -> None:
    """Wait for the half-done round; if it was failed, its turns are free and the next round takes them."""
    wait_until(lambda: client.rounds.get(round_id).ended, "the round is over")
    if client.rounds.get(round_id).state == "failed":
        _let_train(client, client.rounds.start("other").id)
    else:
        assert client.rounds.get(round_id).state == "published", client.rounds.get(round_id).error


def _writable(database: Database) -> bool:
    """Whether nobody was stopped while it held SQLite's one write lock."""
    try:
        with database.write() as session:
            session.exec(select(func.count()).select_from(Turn)).one()
    except OperationalError:
        return False
    return True


def _states(database: Database, turn_ids: list[str]) -> set[str]:
    with database.read() as session:
        return set(session.exec(select(Turn.state).where(col(Turn.id).in_(turn_ids))).all())


def _broker(install: Install, up: Up) -> Redis:
    """The embedded broker, found by the port that its process listens on."""
    for child in up.children():
        if "valkey" in child.name():
            port = next(each.laddr.port for each in child.net_connections() if each.status == "LISTEN")
            password = (install.folder / "data/broker/password").read_text()
            return Redis(port=port, password=password)
    raise AssertionError("no broker")
