from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client_sdk.scripted_server import ScriptedServer

from afterturn import Afterturn

KEY = "at-agent-0123456789abcdef"
ADMIN = "at-admin-fedcba9876543210"


@pytest.fixture(scope="session")
def running_server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def server(running_server: ScriptedServer) -> ScriptedServer:
    """A server that has been asked nothing and told nothing; one process-wide, since stopping takes time."""
    running_server.forget()
    return running_server


@pytest.fixture
def client(server: ScriptedServer, tmp_path: Path) -> Iterator[Afterturn]:
    with Afterturn(server.url, KEY, ADMIN, outbox_dir=tmp_path / "outbox") as client:
        yield client
