"""What a stack refuses before it starts anything."""

import socket
from pathlib import Path

import pytest

from afterturn_cli.ports import free_ports, require_free
from afterturn_cli.preparation import ModelUnavailable, held_folder, prepare_model
from afterturn_cli.services import Install, engine_command, services
from afterturn_cli.supervisor import Ports, Stack
from afterturn_core.errors import SettingsError
from afterturn_core.settings import Settings, load_settings


@pytest.mark.parametrize(
    ("taken", "variable"),
    [(0, "AFTERTURN_PORT"), (1, "AFTERTURN_DASHBOARD_PORT"), (2, "AFTERTURN_ENGINE_PORT")],
)
def test_a_port_in_use_is_told_before_anything_is_made(tmp_path: Path, taken: int, variable: str) -> None:
    ports = free_ports(3)
    with socket.create_server(("127.0.0.1", ports[taken])):
        stack = Stack(
            data_dir=tmp_path / "data",
            ports=Ports(*ports),
            env={"AFTERTURN_ENGINE_URL": "", "AFTERTURN_HOST": ""},
            dashboard=True,
        )
        with (
            pytest.raises(SettingsError, match=f"{variable}: cannot listen on 127.0.0.1:{ports[taken]}"),
            stack,
        ):
            pass
    assert not (tmp_path / "data").exists()


def test_a_wrong_setting_is_told_before_anything_is_made(tmp_path: Path) -> None:
    stack = Stack(data_dir=tmp_path / "data", env={"AFTERTURN_IDLE_S": "soon"})
    with pytest.raises(SettingsError, match="AFTERTURN_IDLE_S"), stack:
        pass
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("model", ["{folder}/nothing", "{folder}"])
def test_a_model_path_that_is_none_is_told_before_anything_is_made(tmp_path: Path, model: str) -> None:
    env = {"AFTERTURN_MODEL": model.format(folder=tmp_path)}
    with pytest.raises(SettingsError, match="AFTERTURN_MODEL"), Stack(data_dir=tmp_path / "data", env=env):
        pass
    assert not (tmp_path / "data").exists()


def test_two_supervisors_never_share_a_folder(tmp_path: Path) -> None:
    with (
        held_folder(tmp_path),
        pytest.raises(SettingsError, match="in use by another"),
        held_folder(tmp_path),
    ):
        pass
    with held_folder(tmp_path):
        pass


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="AFTERTURN_DATA_DIR"), held_folder(tmp_path / "file" / "data"):
        pass


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        require_free("127.0.0.1", port, "ANY")


def test_variables_given_to_a_stack_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_MIN_SIGNALS", "3")
    monkeypatch.setenv("AFTERTURN_OBJECTIVE", "rl")
    settings = load_settings({"AFTERTURN_MIN_SIGNALS": "5", "AFTERTURN_OBJECTIVE": "", "OTHER": "x"})
    assert settings.min_signals == 5
    assert settings.objective == "hybrid"


def test_what_the_settings_name_is_not_started(tmp_path: Path) -> None:
    own = Settings(data_dir=tmp_path)
    other = Settings(data_dir=tmp_path, engine_url="http://127.0.0.1:8000", broker_url="redis://127.0.0.1/0")
    everything = services(Install(own, {}, 6379, with_dashboard=True))
    assert [service.name for service in everything] == [
        "broker",
        "engine",
        "extractor",
        "trainer",
        "gateway",
        "dashboard",
    ]
    least = services(Install(other, {}, None, with_dashboard=False))
    assert [service.name for service in least] == ["extractor", "trainer", "gateway"]


def test_the_gateway_keeps_to_one_core_unless_its_settings_say_otherwise(tmp_path: Path) -> None:
    def environment(settings: Settings) -> dict[str, str]:
        started = services(Install(settings, {"AFTERTURN_PORT": "1"}, None, with_dashboard=False))
        return dict(next(service.environment for service in started if service.name == "gateway"))

    assert environment(Settings(data_dir=tmp_path)) == {
        "AFTERTURN_PORT": "1",
        "AFTERTURN_GATEWAY_CORE": "last",
    }
    assert environment(Settings(data_dir=tmp_path, gateway_core="any")) == {"AFTERTURN_PORT": "1"}


def test_no_secret_is_on_a_command_line(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_key="a" * 30, engine_api_key="sesame-sesame")  # type: ignore[arg-type]
    words = [word for service in services(Install(settings, {}, 6379, True)) for word in service.command]
    assert not any("sesame" in word or "aaaa" in word for word in words)


def test_the_engine_is_started_as_the_settings_want_it(tmp_path: Path) -> None:
    command = engine_command(
        Settings(data_dir=tmp_path, model="/models/m", engine_port=4000, engine_threads=2)
    )
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options["--model"] == "/models/m"
    assert options["--port"] == "4000"
    assert options["--threads"] == "2"
    assert options["--adapter-root"] == str(tmp_path / "adapters")


def test_a_model_with_a_short_context_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    settings = Settings(data_dir=tmp_path, model=str(tmp_path), max_model_len=8192)
    command = engine_command(settings)
    assert command[command.index("--max-model-len") + 1] == "2048"


def test_a_model_path_is_passed_on_as_it_is(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, model="/models/m")
    assert prepare_model(settings, {}, lambda line: None) == "/models/m"


def test_a_model_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    blocker = tmp_path / "models"
    blocker.write_text("")
    with pytest.raises(ModelUnavailable):
        prepare_model(Settings(data_dir=tmp_path, model="default"), {}, lambda line: None)
