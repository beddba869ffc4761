"""One frozen object of settings, built once per process from `AFTERTURN_*` and `afterturn.toml`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .errors import SettingsError
from .masking import installed

PREFIX = "AFTERTURN_"
MASKS = ("judge", "loss", "storage")
Objective = Literal["hybrid", "rl", "opd", "sdft", "dpo", "kto"]


class Settings(BaseSettings):
    """Effective settings. Durations are seconds, sizes are bytes unless the name says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        toml_file="afterturn.toml",
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        validate_default=True,
    )

    data_dir: Path = Path("data")
    host: str = "127.0.0.1"
    port: int = Field(30000, ge=1, le=65535)
    dashboard_port: int = Field(30001, ge=1, le=65535)
    engine_port: int = Field(30002, ge=1, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    database_url: str = ""
    broker_url: str = ""
    engine_url: str = ""
    engine_api_key: SecretStr = SecretStr("")
    admin_key: SecretStr = SecretStr("")

    model: str = "default"
    engine_max_sequences: int = Field(8, ge=1, le=256)
    engine_threads: int = Field(0, ge=0)
    max_model_len: int = Field(8192, ge=64)

    judge: Literal["rules", "openai", "off"] = "rules"
    judge_url: str = ""
    judge_model: str = ""
    judge_api_key: SecretStr = SecretStr("")
    judge_votes: int = Field(3, ge=1, le=15)
    judge_temperature: float = Field(0.6, ge=0, le=2)
    judge_timeout_s: float = Field(60.0, gt=0)
    # Of one agent, prompts and answers together, per calendar day (UTC); 0: no limit.
    judge_tokens_per_day: int = Field(0, ge=0)
    # Where secrets and personal data are masked, comma-separated: see docs/privacy.md. `judge` concerns a
    # judge at `judge_url` alone.
    mask: str = "judge"

    objective: Objective = "hybrid"
    min_signals: int = Field(8, ge=1)
    max_wait_s: float = Field(86400.0, gt=0)
    max_round_turns: int = Field(64, ge=1)
    # How much of a round one user or tool may make up where there are several; 1: all of it.
    max_source_share: float = Field(0.8, gt=0, le=1)
    max_train_tokens: int = Field(4096, ge=64)
    learning_rate: float | None = Field(None, gt=0)
    trainer_threads: int = Field(0, ge=0)
    seed: int = 0

    idle_s: float = Field(300.0, gt=0)
    sweep_s: float = Field(2.0, gt=0)
    lease_s: float = Field(60.0, gt=1)
    round_backoff_s: float = Field(600.0, ge=0)
    retention_days: float = Field(0.0, ge=0, le=36_500)
    visibility_timeout_s: float = Field(3600.0, gt=0)
    task_time_limit_s: float = Field(600.0, gt=0)

    # `last`: the gateway keeps to the last core it may use, which is quicker where it is the only one there;
    # `afterturn up` sets it.
    gateway_core: Literal["any", "last"] = "any"
    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1024)
    max_adapter_bytes: int = Field(1024**3, ge=1024)
    engine_timeout_s: float = Field(600.0, gt=0)
    keep_alive_s: float = Field(10.0, gt=0, le=15)
    # How long a request waits for the database; then it is taken for away, and told so at once.
    database_timeout_s: float = Field(10.0, gt=0)
    serve_without_log: bool = False

    @field_validator("admin_key")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and len(value.get_secret_value()) < 24:
            raise ValueError("at least 24 characters, or unset to use the one in keys.env")
        return value

    @field_validator("mask")
    @classmethod
    def _known_masks(cls, value: str, info: ValidationInfo) -> str:
        wanted = frozenset(name.strip() for name in value.split(","))
        if wanted != {"off"} and not wanted <= frozenset(MASKS):
            raise ValueError("off, or some of judge, loss and storage, comma-separated")
        needed = wanted & {"loss", "storage"}
        if "judge" in wanted and info.data.get("judge") == "openai" and info.data.get("judge_url"):
            needed |= {"judge"}
        if needed and not installed():
            raise ValueError(
                f"{', '.join(sorted(needed))}: needs what finds secrets; install "
                "afterturn-platform[privacy], or set it to off"
            )
        return value

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        if value and not value.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ValueError("sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME")
        return value

    @field_validator("broker_url")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if value and not value.startswith(("redis://", "rediss://")):
            raise ValueError("redis://HOST:PORT/N, or unset for the embedded server")
        return value

    @field_validator("engine_url", "judge_url")
    @classmethod
    def _http_urls(cls, value: str) -> str:
        for url in filter(None, value.split(",")):
            if not url.strip().startswith(("http://", "https://")):
                raise ValueError("http://HOST:PORT, comma-separated for replicas")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def engine_urls(self) -> tuple[str, ...]:
        """Base URLs of the engine replicas, without a trailing slash."""
        urls = tuple(url.strip().rstrip("/") for url in self.engine_url.split(",") if url.strip())
        return urls or (f"http://127.0.0.1:{self.engine_port}",)

    def masks(self, where: Literal["judge", "loss", "storage"]) -> bool:
        """Whether secrets and personal data are masked there; `judge`: in what another's server is shown."""
        if where == "judge" and not self.judge_url:
            return False
        return where in [name.strip() for name in self.mask.split(",")]

    @property
    def effective_database_url(self) -> str:
        """SQLAlchemy URL; the embedded default is a file in the data directory."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'afterturn.db'}"

    @property
    def adapter_root(self) -> Path:
        """Folder under which every adapter of this install lies."""
        return self.data_dir.resolve() / "adapters"

    @property
    def keys_file(self) -> Path:
        """Where the first start writes the keys, once, mode 0600."""
        return self.data_dir / "keys.env"


def load_settings(given: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; `given` holds `AFTERTURN_*` variables that come before the environment's.

    An empty value among the given ones takes a setting back to its default.

    Raises:
        SettingsError: a value that cannot work; names the variable and what it accepts.
    """
    overrides = {
        name: value or Settings.model_fields[name].default
        for variable, value in (given or {}).items()
        if variable.startswith(PREFIX)
        and (name := variable.removeprefix(PREFIX).lower()) in Settings.model_fields
    }
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # field names, checked by pydantic
    except ValidationError as error:
        lines = [
            f"{PREFIX}{'.'.join(str(part) for part in problem['loc']).upper()}: "
            f"{problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_input=False, include_url=False)
        ]
        raise SettingsError("; ".join(lines)) from None
    except ValueError as error:
        raise SettingsError(f"afterturn.toml: {error}") from None


def sources(settings: Settings) -> dict[str, str]:
    """Where each field's value came from: `environment`, `afterturn.toml` or `default`."""
    in_file = TomlConfigSettingsSource(type(settings))()
    found = {}
    for name in type(settings).model_fields:
        if os.environ.get(f"{PREFIX}{name.upper()}"):
            found[name] = "environment"
        else:
            found[name] = "afterturn.toml" if name in in_file else "default"
    return found
