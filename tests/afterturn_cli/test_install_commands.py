"""Commands about this machine: doctor, migrate, adapters on disk, eval."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.afterturn_cli.conftest import Run

from afterturn_cli.ports import free_ports


def write_adapter(folder: Path) -> Path:
    folder.mkdir(parents=True)
    files = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (folder / "manifest.json").write_text(json.dumps({"files": sums}))
    return folder


@pytest.mark.usefixtures("own_folder")
def test_doctor_shows_settings_with_their_source_and_no_secret(
    run: Run, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_folder / "afterturn.toml").write_text("min_signals = 5\n")
    monkeypatch.setenv("AFTERTURN_ADMIN_KEY", "correct-horse-battery-staple")
    monkeypatch.setenv("AFTERTURN_BROKER_URL", "redis://:sesame@127.0.0.1:1/0")
    told = run("doctor", "--json")
    report = json.loads(told.out)
    rows = {row["name"]: (row["value"], row["source"]) for row in report["settings"]}
    assert rows["AFTERTURN_MIN_SIGNALS"] == ("5", "afterturn.toml")
    assert rows["AFTERTURN_ADMIN_KEY"] == ("********", "environment")
    assert rows["AFTERTURN_SWEEP_S"] == ("2.0", "default")
    for text in (told.out, told.err, run("doctor").out):
        assert "staple" not in text
        assert "sesame" not in text


@pytest.mark.usefixtures("own_folder")
def test_doctor_on_a_fresh_machine_finds_nothing_broken(run: Run) -> None:
    told = run("doctor", "--json")
    assert told.code == 0
    checks = {check["name"]: check["level"] for check in json.loads(told.out)["checks"]}
    assert checks["disk"] == "ok"
    assert checks["database"] == "note"


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("AFTERTURN_BROKER_URL", "redis://127.0.0.1:1/0", "broker"),
        ("AFTERTURN_ENGINE_URL", "http://127.0.0.1:{port}", "engine"),
        ("AFTERTURN_MODEL", "/no/such/folder", "model"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_doctor_ends_with_1_and_names_what_is_broken(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str, check: str
) -> None:
    monkeypatch.setenv(name, value.format(port=free_ports(1)[0]))
    told = run("doctor", "--json")
    assert told.code == 1
    report = json.loads(told.out)
    assert [row["name"] for row in report["checks"] if row["level"] == "broken"] == [check]
    assert report["ok"] is False


@pytest.mark.usefixtures("own_folder")
def test_migrate_makes_a_database_that_doctor_accepts(run: Run) -> None:
    assert run("migrate").code == 0
    assert run("migrate").code == 0
    checks = {check["name"]: check["level"] for check in json.loads(run("doctor", "--json").out)["checks"]}
    assert checks["database"] == "ok"


@pytest.mark.usefixtures("own_folder")
def test_a_wrong_setting_is_named_and_ends_with_2(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_MIN_SIGNALS", "many")
    refused = run("doctor")
    assert refused.code == 2
    assert "AFTERTURN_MIN_SIGNALS" in refused.err


def test_adapters_on_disk_are_verified(run: Run, own_folder: Path) -> None:
    write_adapter(own_folder / "data/adapters/default/v1")
    broken = write_adapter(own_folder / "data/adapters/default/v2")
    assert run("adapters", "verify", "default@v1").code == 0
    (broken / "adapter_model.safetensors").write_bytes(b"weighty")
    told = run("adapters", "verify", "--json")
    assert told.code == 1
    findings = {row["name"]: row["problems"] for row in json.loads(told.out)["data"]}
    assert findings == {
        "default@v1": [],
        "default@v2": ["adapter_model.safetensors differs from its checksum"],
    }


def test_an_adapter_is_exported_whole_and_a_damaged_one_not_at_all(run: Run, own_folder: Path) -> None:
    source = write_adapter(own_folder / "data/adapters/default/v1")
    (source / "optimizer.safetensors").write_bytes(b"of use to this install alone")
    assert run("adapters", "export", "default@v1", "out").code == 0
    assert sorted(path.name for path in (own_folder / "out").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "manifest.json",
    ]  # fmt: skip
    assert (own_folder / "out/adapter_model.safetensors").read_bytes() == b"weights"
    assert run("adapters", "export", "default@v1", "out").code == 2
    (source / "adapter_config.json").unlink()
    refused = run("adapters", "export", "default@v1", "again")
    assert refused.code == 1
    assert "adapter_config.json is missing" in refused.err
    assert not (own_folder / "again").exists()


def test_a_folder_from_elsewhere_is_verified_and_a_damaged_one_never_sent(run: Run, own_folder: Path) -> None:
    folder = write_adapter(own_folder / "elsewhere")
    (folder / "optimizer.safetensors").write_bytes(b"moments")
    assert run("adapters", "verify", str(folder)).code == 0
    (folder / "adapter_model.safetensors").write_bytes(b"weighty")
    assert run("adapters", "verify", str(folder)).code == 1
    refused = run("adapters", "import", str(folder), "--agent", "default")
    assert (refused.code, "differs from its checksum" in refused.err) == (1, True)
    listed = {"adapter_config.json": "0", "../../x": "0"}
    (folder / "manifest.json").write_text(json.dumps({"files": listed}))
    assert "no part of an adapter" in run("adapters", "import", str(folder), "--agent", "default").err
    assert run("adapters", "import", str(own_folder / "nothing"), "--agent", "default").code == 1
    assert run("adapters", "import", str(folder)).code == 2


@pytest.mark.usefixtures("own_folder")
def test_migrate_goes_one_step_back_and_forward_again(run: Run) -> None:
    assert run("migrate").code == 0
    back = run("migrate", "--back")
    assert (back.code, "run the version before" in back.out) == (0, True)
    behind = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(behind.out)["checks"]}
    assert (checks["database"]["level"], "afterturn migrate" in checks["database"]["text"]) == (
        "broken",
        True,
    )
    assert run("migrate").code == 0


def test_signals_are_scored(run: Run, own_folder: Path) -> None:
    row = {
        "id": "1",
        "source": "ours",
        "tier": "core",
        "user_request": "What is a mutex?",
        "assistant": "A long lecture.",
        "next_role": "user",
        "next_state": "That is too long. Please be brief.",
        "label": -1,
        "directive": True,
    }
    (own_folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    told = run("eval", "signals", "rows.jsonl", "--json")
    assert told.code == 0
    assert json.loads(told.out)["core"]["user"]["n"] == 1
    assert run("eval", "signals", "missing.jsonl").code == 1
