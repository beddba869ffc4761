"""Backups: taken under traffic, put back elsewhere, refused where they would do harm."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlmodel import col, select
from tests.afterturn_cli.conftest import Run
from tests.afterturn_server.conftest import eventually
from tests.databases import KINDS, Databases
from tests.served import served
from tests.small_disk import small_disk

from afterturn_cli.backup.saving import copy_folder
from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.ids import new_id
from afterturn_core.keys import prepare_first_start
from afterturn_core.models import Adapter, Agent, EngineModel, Turn
from afterturn_core.settings import Settings, load_settings
from afterturn_engine.scripted import create_app as create_engine
from afterturn_server.app import create_app

CLIENTS = 4


@contextmanager
def gateway(settings: Settings) -> Iterator[str]:
    """A gateway over these settings; yields its URL."""
    database = Database(settings.effective_database_url)
    with served(create_app(settings, database, Wake(""))) as url:
        yield url
    database.close()


def key_of(settings: Settings) -> str:
    """The key that the first start wrote down."""
    lines = dict(line.split("=", 1) for line in settings.keys_file.read_text().split())
    return lines["AFTERTURN_API_KEY"]


def chat(url: str, key: str, text: str) -> httpx.Response:
    """One whole answer."""
    response = httpx.post(
        f"{url}/v1/chat/completions",
        headers={"Authorization": f"Bearer {key}"},
        json={"model": "default", "messages": [{"role": "user", "content": text}]},
        timeout=60,
        trust_env=False,
    )
    response.raise_for_status()
    return response


class Traffic:
    """Clients that chat until they are told to stop; `acknowledged` are the turns whose answers were read."""

    def __init__(self, url: str, key: str) -> None:
        self.acknowledged: list[str] = []
        self._url, self._key = url, key
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self, more: int) -> None:
        """Wait until so many more turns are acknowledged."""
        enough = len(self.acknowledged) + more
        eventually(lambda: len(self.acknowledged) >= enough)

    def _run(self, number: int) -> None:
        asked = 0
        while not self._over.is_set():
            asked += 1
            answer = chat(self._url, self._key, f"question {asked} of client {number}")
            self.acknowledged.append(answer.headers["x-turn-id"])


def publish(settings: Settings) -> None:
    """Put a first adapter on the disk and live, as a round would."""
    folder = settings.adapter_root / "default" / "v1"
    folder.mkdir(parents=True)
    files = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (folder / "manifest.json").write_text(json.dumps({"files": sums}))
    database = Database(settings.effective_database_url)
    with database.write() as session:
        agent = session.exec(select(Agent).where(Agent.name == "default")).one()
        adapter = Adapter(
            id=new_id("adapter"),
            agent_id=agent.id,
            version=1,
            name="default@v1",
            state="published",
            sha256=sums["adapter_model.safetensors"],
            model_hash=session.exec(select(EngineModel.model_hash)).one(),
            path=str(folder),
        )
        session.add(adapter)
        agent.live_adapter_id, agent.next_version = adapter.id, 2
    database.close()


def turns_in(settings: Settings) -> set[str]:
    """The turns of a database."""
    database = Database(settings.effective_database_url)
    with database.read() as session:
        found = set(session.exec(select(col(Turn.id))).all())
    database.close()
    return found


def first_start(settings: Settings) -> None:
    """Make the database and the keys."""
    database = Database(settings.effective_database_url)
    database.migrate()
    prepare_first_start(database, settings)
    database.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_under_traffic_holds_what_was_acknowledged_and_serves_elsewhere(
    kind: str, own_folder: Path, databases: Databases, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = own_folder / "here", own_folder / "there"
    here.mkdir()
    there.mkdir()
    saved = own_folder / "saved"
    with served(create_engine()) as engine_url, databases.fresh(kind, here) as url:
        monkeypatch.setenv("AFTERTURN_ENGINE_URL", engine_url)
        monkeypatch.setenv("AFTERTURN_DATA_DIR", str(here))
        monkeypatch.setenv("AFTERTURN_DATABASE_URL", url)
        settings = load_settings()
        first_start(settings)
        with gateway(settings) as gateway_url:
            chat(gateway_url, key_of(settings), "hello")  # so that the base model is known
            publish(settings)
            with Traffic(gateway_url, key_of(settings)) as traffic:
                traffic.goes_on(20)
                before = set(traffic.acknowledged)
                told = run("backup", str(saved), "--json")
                assert told.code == 0, told.err
                traffic.goes_on(8)
            assert set(traffic.acknowledged) <= turns_in(settings)
        summary = json.loads(told.out)
        assert summary["adapters"] == ["default@v1"]
        assert summary["turns"] > len(before)

        shutil.rmtree(here / "adapters")
        monkeypatch.setenv("AFTERTURN_DATA_DIR", str(there))
        with databases.fresh(kind, there) as other:
            monkeypatch.setenv("AFTERTURN_DATABASE_URL", other)
            told = run("restore", str(saved))
            assert told.code == 0, told.err
            restored = load_settings()
            assert before <= turns_in(restored)
            assert len(turns_in(restored)) == summary["turns"]
            assert run("adapters", "verify").code == 0
            with gateway(restored) as gateway_url:
                answer = chat(gateway_url, key_of(restored), "are you still there?")
                assert answer.headers["x-adapter"] == "default@v1"
                assert answer.headers["x-turn-id"] in turns_in(restored)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_refuses_an_install_with_agents_unless_forced(
    kind: str, own_folder: Path, databases: Databases, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = own_folder / "saved"
    with databases.fresh(kind, own_folder) as url:
        monkeypatch.setenv("AFTERTURN_DATABASE_URL", url)
        first_start(load_settings())
        assert run("backup", str(saved)).code == 0
        assert run("agents", "list").code != 2  # the command line is whole
        database = Database(url)
        with database.write() as session:
            session.exec(select(Agent)).one().name = "renamed"
        refused = run("restore", str(saved))
        assert refused.code == 2
        assert "--force" in refused.err
        with database.read() as session:
            assert session.exec(select(Agent.name)).one() == "renamed"
        database.close()
        assert run("restore", str(saved), "--force").code == 0
        database = Database(url)
        with database.read() as session:
            assert session.exec(select(Agent.name)).one() == "default"
        database.check_schema()
        database.close()


@pytest.fixture
def saved(own_folder: Path, run: Run) -> Path:
    """A backup of a fresh install, which is gone since."""
    first_start(load_settings())
    path = own_folder / "saved"
    assert run("backup", str(path)).code == 0
    shutil.rmtree(own_folder / "data")
    return path


def rewrite(path: Path, **changes: Any) -> None:
    """Change a backup's table of contents."""
    table = path / "backup.json"
    table.write_text(json.dumps(json.loads(table.read_text()) | changes))


def test_a_damaged_backup_is_refused_before_anything_is_changed(
    saved: Path, own_folder: Path, run: Run
) -> None:
    with (saved / "database.sqlite").open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"\0\1\2\3")
    told = run("restore", str(saved))
    assert told.code == 1
    assert "checksum differs" in told.err
    (saved / "database.sqlite").unlink()
    assert "is missing" in run("restore", str(saved)).err
    assert not (own_folder / "data" / "afterturn.db").exists()


def test_a_backup_whose_adapters_lie_elsewhere_is_refused(saved: Path, own_folder: Path, run: Run) -> None:
    """Field case B27: a table of contents may come from anywhere."""
    leading_out = {"id": "a", "name": "x@v1", "agent": "../../out", "version": 1, "live": False}
    rewrite(saved, adapters=[leading_out])
    (saved / "adapters" / "../../out" / "v1").mkdir(parents=True)
    assert run("restore", str(saved)).code == 1
    assert not (own_folder / "data" / "afterturn.db").exists()


def test_moments_that_go_while_an_adapter_is_copied_do_not_fail_the_backup(tmp_path: Path) -> None:
    source = tmp_path / "v1"
    source.mkdir()
    for name in ("weights", "moments"):
        (source / name).write_text(name)

    def slowly(file: str, target: str) -> str:
        (source / "moments").unlink(missing_ok=True)
        return str(shutil.copy2(file, target))

    copy_folder(source, tmp_path / "copy", slowly)
    assert [file.name for file in (tmp_path / "copy").iterdir()] == ["weights"]


def test_a_forced_restore_removes_versions_whose_numbers_are_given_again(own_folder: Path, run: Run) -> None:
    first_start(load_settings())
    saved = own_folder / "saved"
    assert run("backup", str(saved)).code == 0
    agent = load_settings().adapter_root / "default"
    later = (agent / "v1", agent / ".rejected" / "v2")
    for folder in later:
        folder.mkdir(parents=True)
    assert run("restore", str(saved), "--force").code == 0
    assert not any(folder.exists() for folder in later)


def test_a_backup_of_a_newer_version_is_refused(saved: Path, own_folder: Path, run: Run) -> None:
    rewrite(saved, revision="9999")
    told = run("restore", str(saved))
    assert told.code == 2
    assert "newer Afterturn" in told.err
    assert not (own_folder / "data" / "afterturn.db").exists()


def test_a_backup_goes_back_only_into_its_own_kind_of_database(
    saved: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERTURN_DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    told = run("restore", str(saved))
    assert told.code == 2
    assert "sqlite" in told.err


def test_a_folder_that_is_there_is_never_written_into(saved: Path, run: Run) -> None:
    told = run("backup", str(saved))
    assert told.code == 1
    assert "already" in told.err


def test_what_is_no_backup_is_told_so(own_folder: Path, run: Run) -> None:
    (own_folder / "empty").mkdir()
    told = run("restore", str(own_folder / "empty"))
    assert told.code == 1
    assert "no backup" in told.err


def test_a_backup_holds_keys_so_nobody_else_may_read_it(saved: Path) -> None:
    assert saved.stat().st_mode & 0o077 == 0
    assert (saved / "keys.env").stat().st_mode & 0o077 == 0


def test_a_live_adapter_without_its_folder_fails_the_backup_and_leaves_nothing(
    own_folder: Path, run: Run
) -> None:
    settings = load_settings()
    first_start(settings)
    database = Database(settings.effective_database_url)
    with database.write() as session:
        session.add(EngineModel(model_hash="0" * 16, name="base"))
    database.close()
    publish(settings)
    shutil.rmtree(settings.adapter_root)
    told = run("backup", str(own_folder / "saved"))
    assert told.code == 1
    assert "missing" in told.err
    assert [path.name for path in own_folder.iterdir() if "saved" in path.name] == []


def test_a_backup_that_does_not_fit_leaves_nothing_and_says_why(own_folder: Path, run: Run) -> None:
    first_start(load_settings())
    with small_disk(own_folder / "stick", 64) as disk:
        told = run("backup", str(disk.folder / "saved"))
        assert told.code == 1
        assert "full" in told.err or "No space" in told.err
        assert list(disk.folder.iterdir()) == []
        disk.remount("ro")
        told = run("backup", str(disk.folder / "saved"))
        assert told.code == 1
        assert "Read-only file system" in told.err
