"""Adapters between installs, through the command line, two gateways and an embedded engine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file
from sqlmodel import select
from tests.acceptance.conftest import PATIENCE_S, answers, wait_until
from tests.exported import CONFIG, QUERY, WEIGHTS, export_tiny, set_config, set_tensor, sign, zipped
from tests.tiny_model import build_tiny_adapter, build_tiny_model

from afterturn_cli.ports import free_ports
from afterturn_core.base_model import model_hash
from afterturn_core.database import Database
from afterturn_core.engine_client import EngineClient
from afterturn_core.keys import prepare_first_start
from afterturn_core.models import Adapter, Agent
from afterturn_core.settings import Settings

pytestmark = pytest.mark.acceptance
TOKENS = [5, 17, 40, 99, 23, 8, 150, 61]
SOURCE = "original"


@dataclass(frozen=True)
class Install:
    """One gateway with data of its own."""

    settings: Settings
    url: str
    admin_key: str

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, as this install's owner uses it."""
        environment = {**os.environ, **_environment(self.settings)}
        command = [sys.executable, "-m", "afterturn_cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)

    def admin(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """A call of the admin API."""
        headers = {"Authorization": f"Bearer {self.admin_key}"}
        with httpx.Client(headers=headers, timeout=60, trust_env=False) as client:
            return client.request(method, f"{self.url}/admin/api/{path}", **arguments)

    def upload(self, folder: Path) -> httpx.Response:
        """Send an exported adapter for the agent `copy`, without looking at it first."""
        return self.admin(
            "POST",
            "adapters",
            params={"agent": "copy"},
            content=zipped(folder),
            headers={"Content-Type": "application/zip"},
        )


def _environment(settings: Settings) -> dict[str, str]:
    return {
        "AFTERTURN_DATA_DIR": str(settings.data_dir),
        "AFTERTURN_PORT": str(settings.port),
        "AFTERTURN_ENGINE_URL": settings.engine_url,
        "AFTERTURN_MODEL": settings.model,
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def running(command: list[str], environment: dict[str, str], url: str) -> Iterator[None]:
    """A process of ours until the block ends; begins once `url` answers."""
    process = subprocess.Popen([sys.executable, "-m", *command], env={**os.environ, **environment})
    try:
        wait_until(lambda: process.poll() is not None or answers(url), f"{command[0]} answers")
        assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of this module; the engine's adapter root."""
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return build_tiny_model(folder / "model", seed=3)


@pytest.fixture(scope="module")
def engine(folder: Path, model: Path) -> Iterator[str]:
    """One embedded engine for both installs; it sees the adapters of both."""
    (port,) = free_ports(1)
    options = ["--model", str(model), "--adapter-root", str(folder), "--port", str(port), "--threads", "1"]
    url = f"http://127.0.0.1:{port}"
    with running(["afterturn_engine", *options], {}, f"{url}/health"):
        yield url


StartInstall = Callable[[str], Install]


@pytest.fixture(scope="module")
def start(folder: Path, model: Path, engine: str) -> Iterator[StartInstall]:
    """Starts an install with the agent of this name, which must be one of its own: the engine is shared."""
    with ExitStack() as stack:

        def install(agent: str) -> Install:
            (port,) = free_ports(1)
            settings = Settings(data_dir=folder / agent, port=port, engine_url=engine, model=str(model))
            database = Database(settings.effective_database_url)
            database.migrate()
            prepare_first_start(database, settings)
            database.close()
            keys = dict(line.split("=", 1) for line in settings.keys_file.read_text("utf-8").split())
            url = f"http://127.0.0.1:{port}"
            stack.enter_context(running(["afterturn_server"], _environment(settings), f"{url}/readyz"))
            made = Install(settings, url, keys["AFTERTURN_ADMIN_KEY"])
            assert made.admin("POST", "agents", json={"name": agent}).status_code == 201
            return made

        yield install


@pytest.fixture(scope="module")
def target(start: StartInstall) -> Install:
    return start("copy")


def publish(install: Install, model: Path, agent: str) -> str:
    """A version as a round would have left it: folder, manifest, row. Scaled so that numbers move a lot."""
    place = install.settings.adapter_root / agent
    place.mkdir(parents=True)
    written = build_tiny_adapter(place, model, "v1", scale=0.2, seed=4)
    sign(written, model_hash(str(model)), f"{agent}@v1")
    database = Database(install.settings.effective_database_url)
    with database.write() as session:
        owner = session.exec(select(Agent).where(Agent.name == agent)).one()
        owner.next_version = 2
        session.add(owner)
        session.add(
            Adapter(
                id=f"adapter_{agent}",
                agent_id=owner.id,
                version=1,
                name=f"{agent}@v1",
                state="published",
                model_hash=model_hash(str(model)),
                path=str(written),
            )
        )
    database.close()
    return f"{agent}@v1"


def numbers(engine: str, name: str) -> list[float]:
    with EngineClient(engine) as client:
        return [value for value in client.prompt_logprobs(name, TOKENS) if value is not None]


def test_an_exported_adapter_gives_the_same_numbers_where_it_is_imported(
    start: StartInstall, target: Install, model: Path, engine: str, folder: Path
) -> None:
    source = start(SOURCE)
    name = publish(source, model, SOURCE)
    assert source.admin("POST", f"adapters/{name}/promote").status_code == 200
    exported = folder / "outside" / "exported"
    told = source.cli("adapters", "export", name, str(exported))
    assert told.returncode == 0, told.stderr
    assert target.cli("adapters", "verify", str(exported)).returncode == 0
    taken = target.cli("adapters", "import", str(exported), "--agent", "copy", "--json")
    assert taken.returncode == 0, taken.stderr
    made = json.loads(taken.stdout)
    assert (made["origin"], made["imported_as"], made["live"]) == ("import", name, False)
    assert target.cli("adapters", "promote", made["name"]).returncode == 0
    assert target.cli("adapters", "verify", made["name"]).returncode == 0
    first, second, base = (numbers(engine, which) for which in (name, made["name"], "base"))
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) <= 1e-5
    assert max(abs(a - b) for a, b in zip(first, base, strict=True)) > 0.1

    # One byte of it changed on the way: neither the command line nor the server takes it.
    weights = bytearray((exported / WEIGHTS).read_bytes())
    weights[-1] ^= 1
    (exported / WEIGHTS).write_bytes(weights)
    assert target.cli("adapters", "verify", str(exported)).returncode == 1
    refused = target.cli("adapters", "import", str(exported), "--agent", "copy")
    assert (refused.returncode, "differs from its checksum" in refused.stderr) == (1, True)


def one_head_less(folder: Path) -> None:
    set_tensor(f"{QUERY}.lora_B.weight", lambda t: t[:-8])(folder)


def more_words(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["base_model.model.model.layers.7.mlp.up_proj.lora_A.weight"] = torch.zeros(4, 64)
    tensors["base_model.model.model.layers.7.mlp.up_proj.lora_B.weight"] = torch.zeros(136, 4)
    save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "reason"), [(one_head_less, "shape"), (more_words, "no module")], ids=["shape", "layer"]
)
def test_b41_what_only_the_engine_can_tell_is_refused_in_its_words(
    target: Install,
    model: Path,
    engine: str,
    tmp_path: Path,
    spoil: Callable[[Path], None],
    reason: str,
) -> None:
    """B41: 4xx with the reason, the engine lives, the name is not served, the number is burned."""
    before = {row["name"]: row["state"] for row in target.admin("GET", "adapters").json()["data"]}
    wrong = export_tiny(tmp_path, model)
    spoil(wrong)
    sign(wrong, model_hash(str(model)))
    answer = target.upload(wrong)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]["message"]
    after = {row["name"]: row["state"] for row in target.admin("GET", "adapters").json()["data"]}
    (new,) = after.keys() - before.keys()
    assert after[new] == "rejected"
    assert not (target.settings.adapter_root / "copy" / new.rpartition("@")[2]).exists()
    with EngineClient(engine) as client:
        assert client.healthy()
        assert new not in [card.id for card in client.models()]
    assert target.admin("POST", f"adapters/{new}/promote").status_code == 409
    sound = export_tiny(tmp_path / "sound", model)
    set_config(lora_dropout=0.5)(sound)
    sign(sound, model_hash(str(model)))
    assert (sound / CONFIG).is_file()
    assert target.upload(sound).status_code == 201
