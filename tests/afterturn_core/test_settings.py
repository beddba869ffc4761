"""Settings: from the environment or a file, checked at the start, never changed after."""

import pytest
from pydantic import ValidationError

from afterturn_core.errors import SettingsError
from afterturn_core.settings import Settings, load_settings, sources


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """A folder without `afterturn.toml`, and an environment without settings."""
    import os

    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("AFTERTURN_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "many"),
        ("DATABASE_URL", "mysql://host/x"),
        ("BROKER_URL", "amqp://host"),
        ("ENGINE_URL", "http://one:1,two:2"),
        ("JUDGE", "perhaps"),
        ("OBJECTIVE", "best"),
        ("MIN_SIGNALS", "0"),
        ("IDLE_S", "-1"),
        ("ADMIN_KEY", "too-short"),
        ("KEEP_ALIVE_S", "60"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(monkeypatch, name, value):
    monkeypatch.setenv(f"AFTERTURN_{name}", value)
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert f"AFTERTURN_{name}" in error.value.message
    if name == "ADMIN_KEY":
        assert value not in error.value.message


def test_the_environment_comes_before_the_file_and_an_empty_value_is_none(monkeypatch, tmp_path):
    (tmp_path / "afterturn.toml").write_text('port = 1234\nhost = "0.0.0.0"\nmin_signals = 5\n')
    monkeypatch.setenv("AFTERTURN_PORT", "4321")
    monkeypatch.setenv("AFTERTURN_HOST", "")
    settings = load_settings()
    assert (settings.port, settings.host, settings.min_signals) == (4321, "0.0.0.0", 5)
    found = sources(settings)
    assert (found["port"], found["min_signals"], found["judge"]) == (
        "environment",
        "afterturn.toml",
        "default",
    )


def test_a_file_that_is_not_toml_is_named(tmp_path):
    (tmp_path / "afterturn.toml").write_text("port = = 1")
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert "afterturn.toml" in error.value.message


def test_settings_do_not_change_and_show_no_secrets(monkeypatch):
    monkeypatch.setenv("AFTERTURN_ADMIN_KEY", "x" * 30)
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.port = 1
    assert "x" * 30 not in repr(settings)


def test_what_follows_from_the_data_folder(tmp_path):
    settings = Settings(data_dir=tmp_path / "d", engine_port=7)
    assert settings.effective_database_url == f"sqlite:///{tmp_path / 'd' / 'afterturn.db'}"
    assert settings.engine_urls == ("http://127.0.0.1:7",)
    assert settings.adapter_root == tmp_path / "d" / "adapters"
    replicas = Settings(engine_url="http://a:1/, http://b:2")
    assert replicas.engine_urls == ("http://a:1", "http://b:2")
