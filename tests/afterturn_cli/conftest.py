"""A real gateway over a fresh database, and the command line pointed at it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from afterturn_cli.main import main
from afterturn_cli.ports import free_ports
from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.keys import prepare_first_start
from afterturn_core.settings import load_settings
from afterturn_server.app import create_app


@dataclass(frozen=True)
class Said:
    """What a command line wrote, and how it ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `afterturn ARGUMENTS…` in this process."""

    def command(*arguments: str) -> Said:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capfd.readouterr()
        return Said(int(ended.value.code or 0), captured.out, captured.err)

    return command


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and data folder of this test's own; no key from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("AFTERTURN_API_KEY", "AFTERTURN_ADMIN_KEY", "AFTERTURN_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFTERTURN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AFTERTURN_PORT", str(free_ports(1)[0]))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def gateway(own_folder: Path) -> Iterator[str]:
    """A gateway with its first keys; its engine is away. Gives its root URL."""
    (engine_port,) = free_ports(1)
    settings = load_settings({"AFTERTURN_ENGINE_URL": f"http://127.0.0.1:{engine_port}"})
    database = Database(settings.effective_database_url)
    database.migrate()
    prepare_first_start(database, settings)
    app = create_app(settings, database, Wake(""))
    server = uvicorn.Server(uvicorn.Config(app, port=settings.port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{settings.port}"
    server.should_exit = True
    thread.join()
    database.close()
