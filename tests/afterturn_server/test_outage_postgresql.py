"""PostgreSQL stopped, and frozen so that nothing answers: both are told at once, and end by themselves."""

import os
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from sqlmodel import select
from tests.databases import SERVER

from afterturn_core.database import Database
from afterturn_core.models import Turn

from .conftest import eventually, free_port

CHAT = "/v1/chat/completions"
SCRIPT = Path(__file__).parents[2] / ".ci" / "postgresql.sh"
BODY = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}


class Server:
    """A PostgreSQL of this module's own, to be ill-treated."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        out = subprocess.run(
            ["bash", str(SCRIPT), "start", str(folder), str(self.port)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = out.stdout.split()[-1]

    def postmaster(self):
        return psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]))

    def stop(self):
        subprocess.run(["bash", str(SCRIPT), "stop", str(self.folder)], check=True)

    def start_again(self):
        (binaries,) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        command = [str(binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-w", "-o", options, "start"]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        with open(os.devnull, "w") as nothing:
            subprocess.run(command, check=True, stdout=nothing, stderr=nothing)


@pytest.fixture(scope="module")
def server():
    if not os.environ.get(SERVER):
        pytest.skip(f"{SERVER} is not set")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs as another user
        running = Server(folder / "postgresql")
        database = Database(running.url)
        database.migrate()
        database.close()
        yield running
        running.stop()


@contextmanager
def stopped(server):
    server.stop()
    yield
    server.start_again()


@contextmanager
def frozen(server):
    family = [server.postmaster(), *server.postmaster().children(recursive=True)]
    for process in family:
        process.send_signal(signal.SIGSTOP)
    yield
    for process in family:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


def stored(url):
    database = Database(url)
    with database.read() as session:
        found = set(session.exec(select(Turn.id)).all())
    database.close()
    return found


@pytest.mark.parametrize("trouble", [stopped, frozen])
def test_while_postgresql_is_away(start, server, trouble):
    from .conftest import _first_start

    with start(database_url=server.url, database_timeout_s=1) as stack:
        _first_start(stack.settings)
        key = stack.add_key("default")
        with stack.client(key) as client:
            acknowledged = {stack.chat(BODY["messages"], key=key)["turn_id"]}
            with trouble(server):
                assert client.post(CHAT, json=BODY).status_code == 503
                eventually(lambda: stack.app.state.gateway.outage.away)
                asked = len(stack.engine.received)
                for streamed in (False, True):
                    refused = client.post(CHAT, json={**BODY, "stream": streamed})
                    assert (refused.status_code, refused.json()["error"]["code"]) == (
                        503,
                        "database_unavailable",
                    )
                    assert int(refused.headers["retry-after"]) >= 1
                assert len(stack.engine.received) == asked
                assert client.get("/readyz").status_code == 503
                assert client.get("/healthz").status_code == 200
            eventually(lambda: client.get("/readyz").status_code == 200)
            acknowledged |= {stack.chat(BODY["messages"], key=key)["turn_id"] for _ in range(5)}
        assert acknowledged <= stored(server.url)
