"""A whole gateway for tests: real uvicorn on free ports, the scripted engine, SQLite in a folder."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anthropic
import httpx
import httpx2
import openai
import pytest
from tests.databases import Databases
from tests.served import served

from afterturn_core.database import Database
from afterturn_core.keys import add_agent, add_key, prepare_first_start
from afterturn_core.settings import Settings
from afterturn_engine.scripted import Script, ScriptedEngine
from afterturn_engine.scripted import create_app as create_engine
from afterturn_server.app import create_app

Json = dict[str, Any]
T = TypeVar("T")
PATIENCE_S = 60.0


def eventually(look: Callable[[], T]) -> T:
    """What `look` finds, once it finds something; what happens after an answer is not there at once."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@dataclass
class RecordedWake:
    """Notes what workers would have been told."""

    judged: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)

    def judge(self, turn_id: str) -> bool:
        self.judged.append(turn_id)
        return True

    def train(self, round_id: str) -> bool:
        self.trained.append(round_id)
        return True

    def heard(self, count: int) -> list[str]:
        """Turns to be judged, once there are so many; sending goes on after the answer."""
        eventually(lambda: len(self.judged) >= count)
        return list(self.judged)


@dataclass
class Stack:
    """One running gateway; `key` belongs to the agent `default`."""

    url: str
    key: str
    admin_key: str
    settings: Settings
    database: Database
    engine: ScriptedEngine
    wake: RecordedWake
    app: Any
    cleanup: ExitStack

    def client(self, key: str | None = None, **headers: str) -> httpx.Client:
        """A client that shows a key."""
        given = {"Authorization": f"Bearer {key or self.key}", **headers}
        return httpx.Client(base_url=self.url, headers=given, timeout=30, trust_env=False, verify=False)

    def openai(self, key: str | None = None) -> openai.OpenAI:
        """The stock client of OpenAI, without retries."""
        wire = self.cleanup.enter_context(httpx.Client(verify=False))
        given = key or self.key
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=given, max_retries=0, http_client=wire)

    def anthropic(self, key: str | None = None) -> anthropic.Anthropic:
        """The stock client of Anthropic, without retries."""
        wire = self.cleanup.enter_context(httpx2.Client(verify=False))
        given = key or self.key
        return anthropic.Anthropic(base_url=self.url, api_key=given, max_retries=0, http_client=wire)

    def chat(
        self, messages: list[Json], *, key: str | None = None, headers: Json | None = None, **body: Any
    ) -> Json:
        """One reply that came whole; raises unless it is a 200."""
        with self.client(key) as client:
            response = client.post(
                "/v1/chat/completions",
                json={"model": "default", "messages": messages, **body},
                headers=headers or {},
            )
        assert response.status_code == 200, response.text
        answer: Json = response.json()
        return {**answer, "turn_id": response.headers.get("x-turn-id")}

    def admin(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """A call of the admin API."""
        with self.client(self.admin_key) as client:
            return client.request(method, f"/admin/api/{path}", **arguments)

    def turn(self, turn_id: str) -> Json:
        """A turn as the admin API shows it."""
        response = self.admin("GET", "turns", params={"id": turn_id})
        assert response.status_code == 200, response.text
        (turn,) = response.json()["data"]
        return dict(turn)

    def add_key(self, agent: str, scopes: tuple[str, ...] = ("inference", "feedback"), **limits: Any) -> str:
        """A key of an agent, which is made if it is not there."""
        from sqlmodel import select

        from afterturn_core.models import Agent

        with self.database.write() as session:
            row = session.exec(select(Agent).where(Agent.name == agent)).one_or_none()
            return add_key(session, row or add_agent(session, agent), scopes, **limits)[0]


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder as the first start leaves it, to be copied: migrating takes a second."""
    folder = tmp_path_factory.mktemp("template")
    settings = Settings(data_dir=folder)
    database = Database(settings.effective_database_url)
    database.migrate()
    prepare_first_start(database, settings)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return folder


@pytest.fixture(scope="session")
def engine_server() -> Iterator[tuple[str, ScriptedEngine]]:
    """One scripted engine for all tests, which each begin with it fresh: a server takes time to start."""
    app = create_engine()
    with served(app) as url:
        yield url, app.state.engine


@pytest.fixture
def database_kind() -> str:
    """What a stack stores in; modules whose tests should run on more say so."""
    return "sqlite"


StartStack = Callable[..., AbstractContextManager[Stack]]


@pytest.fixture
def start(
    template: Path,
    tmp_path: Path,
    engine_server: tuple[str, ScriptedEngine],
    databases: Databases,
    database_kind: str,
) -> StartStack:
    """Starts a stack: `with start(script, idle_s=1) as stack`."""
    engine_url, engine = engine_server

    @contextmanager
    def started(script: Script | None = None, **changes: Any) -> Iterator[Stack]:
        folder = tmp_path / "data"
        if not folder.exists():
            shutil.copytree(template, folder)
        with ExitStack() as cleanup:
            if database_kind != "sqlite":
                changes["database_url"] = cleanup.enter_context(databases.fresh(database_kind, tmp_path))
                _first_start(Settings(data_dir=folder, database_url=changes["database_url"]))
            keys = dict(line.split("=", 1) for line in (folder / "keys.env").read_text().split())
            wake = RecordedWake()
            engine.replace_script(script or Script())
            engine.forget_adapters()
            engine.loads.clear()
            engine.received.clear()
            engine.generated_tokens = 0
            settings = Settings(**{"data_dir": folder, "engine_url": engine_url, **changes})
            database = Database(settings.effective_database_url)
            cleanup.callback(database.close)
            app = create_app(settings, database, wake)
            url = cleanup.enter_context(served(app))
            yield Stack(
                url,
                keys["AFTERTURN_API_KEY"],
                keys["AFTERTURN_ADMIN_KEY"],
                settings,
                database,
                engine,
                wake,
                app,
                cleanup,
            )

    return started


def _first_start(settings: Settings) -> None:
    database = Database(settings.effective_database_url)
    prepare_first_start(database, settings)
    database.close()


@pytest.fixture
def stack(start: StartStack) -> Iterator[Stack]:
    """A stack whose engine repeats what it is told."""
    with start() as running:
        yield running
