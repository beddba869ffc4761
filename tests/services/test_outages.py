"""A real gateway and a real extractor while Redis is away: chat goes on, and each turn is judged once."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlmodel import select
from tests.services.conftest import Running, running, wait_until
from tests.services.redis_server import RedisServer
from tests.stored_turns import StoredTurns

from afterturn_cli.ports import free_ports
from afterturn_core.broker import Wake
from afterturn_core.keys import USER_SCOPES, add_key
from afterturn_core.models import Agent, Signal, Turn

COMPLAINT = "That's way too long. Please answer in one short sentence."


@dataclass(frozen=True)
class Service:
    """A gateway that serves, an extractor that works."""

    url: str
    key: str
    stored: StoredTurns
    redis: RedisServer

    def converse(self, name: str) -> str:
        """A question, a complaint, another question; every request is served. Gives the first turn."""
        messages: list[dict[str, str]] = []
        turns = []
        with httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60, trust_env=False
        ) as client:
            for text in (f"What is {name}?", COMPLAINT, "And otherwise?"):
                messages.append({"role": "user", "content": text})
                answer = client.post("/v1/chat/completions", json={"model": "default", "messages": messages})
                assert answer.status_code == 200, answer.text
                turns.append(answer.headers["x-turn-id"])
                messages.append(answer.json()["choices"][0]["message"])
        return turns[0]

    def signals(self, turn_id: str) -> list[int | None]:
        with self.stored.database.read() as session:
            return list(session.exec(select(Signal.verdict).where(Signal.turn_id == turn_id)).all())

    def wait_judged_once(self, turns: list[str]) -> None:
        wait_until(lambda: all(self.signals(turn_id) for turn_id in turns), "every turn is judged")
        wait_until(lambda: self.redis.waiting("extract") + self.redis.in_hand() == 0, "no message is left")
        assert [self.signals(turn_id) for turn_id in turns] == [[-1]] * len(turns)
        with self.stored.database.read() as session:
            states = session.exec(select(Turn.state).where(Turn.id.in_(turns))).all()  # type: ignore[attr-defined]
        assert set(states) == {"judged"}


@pytest.fixture
def service(stored: StoredTurns, redis_server: RedisServer, tmp_path: Path) -> Iterator[Service]:
    engine_port, port = free_ports(2)
    data = tmp_path / "data"
    data.mkdir()
    environment = {
        "AFTERTURN_DATA_DIR": str(data),
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_BROKER_URL": redis_server.url,
        "AFTERTURN_ENGINE_URL": f"http://127.0.0.1:{engine_port}",
        "AFTERTURN_PORT": str(port),
        "AFTERTURN_SWEEP_S": "0.5",
        "AFTERTURN_MIN_SIGNALS": "1000",
    }
    with stored.database.write() as session:
        key, _ = add_key(session, session.get_one(Agent, stored.agent_id), USER_SCOPES)
    with ExitStack() as stack:

        def start(module: str, name: str, *arguments: str) -> Running:
            return stack.enter_context(
                running(module, *arguments, folder=tmp_path / "logs", name=name, environment=environment)
            )

        start("afterturn_engine.scripted", "engine", "--port", str(engine_port))
        wait_until(lambda: answers(f"http://127.0.0.1:{engine_port}/health"), "the engine answers")
        start("afterturn_server", "gateway")
        extractor = start("afterturn_extractor", "extractor")
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/readyz"), "the gateway is ready")
        wait_until(extractor.ready.is_file, "the extractor is ready")
        yield Service(url, key, stored, redis_server)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_chat_goes_on_while_the_broker_is_stopped_and_each_turn_is_judged_once(service: Service) -> None:
    before = service.converse("a mutex")
    service.wait_judged_once([before])
    service.redis.stop()
    during = [service.converse(name) for name in ("a lock", "a fence", "a barrier")]
    assert [service.signals(turn_id) for turn_id in during] == [[], [], []]
    service.redis.start()
    after = service.converse("a latch")
    service.wait_judged_once([before, *during, after])


def test_chat_goes_on_while_the_broker_is_frozen_and_each_turn_is_judged_once(service: Service) -> None:
    before = service.converse("a mutex")
    service.wait_judged_once([before])
    service.redis.freeze()
    during = [service.converse(name) for name in ("a lock", "a fence", "a barrier")]
    assert [service.signals(turn_id) for turn_id in during] == [[], [], []]
    service.redis.thaw()
    after = service.converse("a latch")
    service.wait_judged_once([before, *during, after])


def test_a_message_that_cannot_be_sent_costs_its_sender_one_try(redis_server: RedisServer) -> None:
    """While a frozen broker is known to be away, nothing is tried, so nobody piles up behind it."""
    wake = Wake(redis_server.url, pause_s=3600)
    assert wake.judge("turn_1")
    redis_server.freeze()
    assert not wake.judge("turn_2")
    redis_server.thaw()
    assert not wake.judge("turn_3")  # the pause is not over
    assert Wake(redis_server.url).judge("turn_4")
    patient = Wake(redis_server.url, pause_s=0)
    redis_server.stop()
    assert not patient.judge("turn_5")
    redis_server.start()
    assert patient.judge("turn_6")
    assert redis_server.waiting("extract") == 1
