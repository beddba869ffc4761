"""Field cases B27 and B41 at the admin API: what may come in as an adapter, and what becomes of the rest."""

import json
import os
import pickle
import shutil
import threading
from datetime import timedelta

import pytest
import torch
from sqlmodel import select
from tests.exported import (
    FILES,
    MANIFEST,
    QUERY,
    WEIGHTS,
    export_tiny,
    set_config,
    set_tensor,
    sign,
    zipped,
)
from tests.tiny_model import build_tiny_model

from afterturn_core.base_model import model_hash
from afterturn_core.columns import utc_now
from afterturn_core.lifecycle import import_adapter
from afterturn_core.models import Adapter, Agent
from afterturn_trainer.adapter_folder import verify

from .bad_adapters import OUTSIDE, REFUSED_ARCHIVES, REFUSED_FILES

HI = [{"role": "user", "content": "hi"}]
ZIP = {"Content-Type": "application/zip"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny base model's folder."""
    return build_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def install(start, model):
    """A gateway in front of that model; its engine is the scripted one."""
    with start(model=str(model), max_adapter_bytes=1 << 20) as stack:
        yield stack


@pytest.fixture
def exported(tmp_path, model):
    """An adapter of that model as another install exported it."""
    return export_tiny(tmp_path / "elsewhere", model)


def post(stack, body, *, agent="default", headers=ZIP):
    return stack.admin("POST", "adapters", params={"agent": agent}, content=body, headers=headers)


def reason(answer):
    return answer.json()["error"]["message"]


def listed(stack):
    return [(row["name"], row["state"], row["live"]) for row in stack.admin("GET", "adapters").json()["data"]]


def on_disk(stack):
    root = stack.settings.adapter_root
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_an_import_is_a_version_of_its_own_and_live_once_it_is_promoted(install, exported, model):
    made = post(install, zipped(exported))
    assert made.status_code == 201, made.text
    row = made.json()
    expected = {"name": "default@v1", "version": 1, "parent": None, "state": "published", "live": False,
                "origin": "import", "imported_as": "teacher@v3", "round_id": None,
                "model_hash": model_hash(str(model))}  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    folder = install.settings.adapter_root / "default/v1"
    manifest = verify(folder)  # the trainer continues from it as from its own
    assert (manifest.name, manifest.sha256) == ("default@v1", row["sha256"])
    assert on_disk(install) == [f"default/v1/{name}" for name in sorted(FILES)]
    assert install.chat(HI)["turn_id"]
    assert install.turn(install.chat(HI)["turn_id"])["adapter"] == "base"
    assert install.admin("POST", "adapters/default@v1/promote").json()["live"] is True
    assert install.turn(install.chat(HI)["turn_id"])["adapter"] == "default@v1"
    assert post(install, zipped(exported)).json()["name"] == "default@v2"
    assert listed(install) == [("default@v2", "published", False), ("default@v1", "published", True)]


@pytest.mark.parametrize("fault", REFUSED_FILES)
def test_b41_what_would_be_served_otherwise_than_trained_is_refused_with_the_reason(
    install, exported, model, fault
):
    change, told = REFUSED_FILES[fault]
    change(exported)
    sign(exported, model_hash(str(model)))
    answer = post(install, zipped(exported))
    assert (answer.status_code // 100, told in reason(answer)) == (4, True), answer.text
    assert listed(install) == []
    assert on_disk(install) == []


def test_b41_what_does_not_change_serving_is_taken(install, exported, model):
    set_config(lora_dropout=0.1, layers_to_transform=None, target_modules=["q_proj"])(exported)
    for file_type in (torch.float16, torch.bfloat16, torch.float32):
        set_tensor(f"{QUERY}.lora_A.weight", lambda t, to=file_type: t.to(to))(exported)
        sign(exported, model_hash(str(model)))
        assert post(install, zipped(exported)).status_code == 201


@pytest.mark.parametrize("fault", REFUSED_ARCHIVES)
def test_b27_archives_are_known_by_their_entries_and_write_nothing_else(install, exported, tmp_path, fault):
    pack, status = REFUSED_ARCHIVES[fault]
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    answer = post(install, pack(exported))
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    assert str(tmp_path) not in answer.text
    assert listed(install) == []
    assert on_disk(install) == []
    after = sorted(str(path) for path in tmp_path.rglob("*") if ".imports" not in path.parts)
    assert [path for path in after if path not in before and "adapters" not in path] == []
    assert not os.path.lexists(OUTSIDE)


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_b27_a_pickle_is_never_opened(install, exported, tmp_path, model):
    payload = pickle.dumps(Canary(tmp_path / "canary"))
    (exported / WEIGHTS).write_bytes(payload)
    sign(exported, model_hash(str(model)))
    assert post(install, zipped(exported)).status_code == 400
    assert not (tmp_path / "canary").exists()


def test_b27_only_an_administrator_and_only_an_archive(install, exported):
    body = zipped(exported)
    for key, status in ((None, 401), (install.key, 403)):
        with install.client(key or "wrong") as client:
            for path in ("/admin/api/adapters", "/admin/api/adapters/"):
                answer = client.post(path, params={"agent": "default"}, content=body, headers=ZIP)
                assert answer.status_code in (status, 404), answer.text
    assert post(install, body, headers={"Content-Type": "text/plain"}).status_code == 415
    assert post(install, b"{}", headers={"Content-Type": "application/json"}).status_code == 415
    assert post(install, body, headers={**ZIP, "Origin": "https://evil.example"}).status_code == 403
    for agent in ("nobody", "..", "../../x", "a/b", "a" * 300):
        assert post(install, body, agent=agent).status_code in (400, 404)
    assert install.admin("POST", "adapters", content=body, headers=ZIP).status_code == 400
    assert on_disk(install) == []


def test_b41_another_base_models_adapter_is_refused(install, tmp_path):
    other = build_tiny_model(tmp_path / "other", seed=5)
    answer = post(install, zipped(export_tiny(tmp_path / "elsewhere", other)))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_base_model")
    assert listed(install) == []


def test_imports_at_once_each_get_a_number_of_their_own(install, exported):
    body, names = zipped(exported), []
    threads = [
        threading.Thread(target=lambda: names.append(post(install, body).json()["name"])) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == [f"default@v{number}" for number in range(1, 7)]
    assert len(on_disk(install)) == 6 * len(FILES)


def test_what_a_killed_import_left_is_cleared_by_the_next(install, exported):
    root = install.settings.adapter_root
    with install.database.write() as session:
        owner = session.exec(select(Agent).where(Agent.name == "default")).one()
        left = [import_adapter(session, owner.id, model_hash="0" * 16, imported_as="x") for _ in range(2)]
        left[0].created_at = utc_now() - timedelta(hours=2)
        session.add(left[0])
    for row in left:
        shutil.copytree(exported, root / "default" / f"v{row.version}")
    (root / ".imports/import_old").mkdir(parents=True)
    os.utime(root / ".imports/import_old", (0, 0))
    assert post(install, zipped(exported)).json()["name"] == "default@v3"
    with install.database.read() as session:
        rows = {row.name: row.state for row in session.exec(select(Adapter)).all()}
    assert rows == {"default@v1": "rejected", "default@v2": "candidate", "default@v3": "published"}
    assert sorted(path.name for path in (root / "default").iterdir()) == ["v2", "v3"]
    assert list((root / ".imports").iterdir()) == []


def test_a_number_whose_folder_is_taken_is_not_written_over(install, exported):
    taken = install.settings.adapter_root / "default/v1"
    taken.mkdir(parents=True)
    (taken / "note").write_text("mine")
    answer = post(install, zipped(exported))
    assert (answer.status_code, "on disk already" in reason(answer)) == (400, True)
    assert [path.name for path in taken.iterdir()] == ["note"]
    assert post(install, zipped(exported)).json()["name"] == "default@v2"


def test_a_manifest_that_is_none_is_refused(install, exported, model):
    sound = json.loads((exported / MANIFEST).read_text())
    for wrong in (
        {**sound, "name": "a\0b"},
        {**sound, "name": "../x"},
        {**sound, "model_hash": "x"},
        {**sound, "files": {**sound["files"], "../x": "0"}},
        {**sound, "files": {}},
        {},
        [],
    ):
        (exported / MANIFEST).write_text(json.dumps(wrong))
        assert post(install, zipped(exported)).status_code == 400
