"""Which processes make up a one-machine install, as a function of its settings."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from afterturn_core.base_model import model_location
from afterturn_core.settings import Settings

from . import embedded_broker
from .child import Service

_PROBE_TIMEOUT_S = 1.0
_CHECK_TIMEOUT_S = 5.0
_STOP_S = 10.0  # long enough for a verdict to be stored, a lease to be given back
_GATEWAY_STOP_S = 25.0  # it lets running replies end within 20 s
ONLY_GATEWAY = {"AFTERTURN_GATEWAY_CORE": "last"}  # what suits a gateway that is its machine's only one


@dataclass(frozen=True)
class Install:
    """A one-machine install: settings, what its processes inherit, and where they meet."""

    settings: Settings
    environment: Mapping[str, str]
    # `None`: the settings name a broker of their own.
    broker_port: int | None
    with_dashboard: bool

    @property
    def gateway_url(self) -> str:
        """Where the gateway is reached from this machine."""
        return f"http://{reachable(self.settings.host)}:{self.settings.port}"

    @property
    def dashboard_url(self) -> str:
        """Where the dashboard is reached from this machine."""
        return f"http://{reachable(self.settings.host)}:{self.settings.dashboard_port}"

    @property
    def has_engine(self) -> bool:
        """Whether the engine is one of our processes."""
        return not self.settings.engine_url


def services(install: Install) -> list[Service]:
    """Every process to run, in the order of starting."""
    ours = [_extractor(install), _trainer(install), _gateway(install)]
    if install.has_engine:
        ours.insert(0, _engine(install))
    if install.broker_port is not None:
        ours.insert(0, _broker(install, install.broker_port))
    if install.with_dashboard:
        ours.append(_dashboard(install))
    return ours


def broker_folder(data_dir: Path) -> Path:
    """Where the embedded broker keeps its password."""
    return data_dir / "broker"


def _broker(install: Install, port: int) -> Service:
    folder = broker_folder(install.settings.data_dir)
    url = embedded_broker.broker_url(folder, port)
    command = _module("afterturn_cli.embedded_broker", "--port", str(port), "--folder", str(folder))
    return Service(
        "broker",
        command,
        install.environment,
        lambda: embedded_broker.answers(url),
        _STOP_S,
        stops_last=True,
        is_alive=lambda: embedded_broker.answers(url, _CHECK_TIMEOUT_S),
    )


def _engine(install: Install) -> Service:
    url = f"http://127.0.0.1:{install.settings.engine_port}/health"
    command = engine_command(install.settings)
    return Service(
        "engine",
        command,
        install.environment,
        lambda: _succeeds(url),
        _STOP_S,
        stops_last=True,
        is_alive=lambda: _answers(url, _CHECK_TIMEOUT_S),
    )


def engine_command(settings: Settings) -> tuple[str, ...]:
    """The embedded engine, as the settings want it."""
    model = model_location(settings)
    options = [
        ("--model", model),
        ("--host", "127.0.0.1"),
        ("--port", str(settings.engine_port)),
        ("--adapter-root", str(settings.adapter_root)),
        ("--max-sequences", str(settings.engine_max_sequences)),
        ("--max-model-len", str(min(settings.max_model_len, _own_context(model) or settings.max_model_len))),
    ]
    if settings.engine_threads:
        options.append(("--threads", str(settings.engine_threads)))
    return _module("afterturn_engine", *(word for option in options for word in option))


def _own_context(model: str) -> int | None:
    """How many tokens a model folder says it can take: the setting is a limit, not a wish."""
    try:
        config = json.loads((Path(model) / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None  # a hub id, or a folder that the engine will refuse with its own words
    for part in (config, config.get("text_config") or {}):
        if isinstance(part.get("max_position_embeddings"), int):
            return int(part["max_position_embeddings"])
    return None


def _gateway(install: Install) -> Service:
    root = install.gateway_url
    command = _module("afterturn_server")
    # Unless it is set, by a variable or in the file of settings.
    own = {} if "gateway_core" in install.settings.model_fields_set else ONLY_GATEWAY
    return Service(
        "gateway",
        command,
        {**install.environment, **own},
        lambda: _succeeds(f"{root}/readyz"),
        _GATEWAY_STOP_S,
        # Not `readyz`: a gateway whose engine or database is away is well.
        is_alive=lambda: _answers(f"{root}/healthz", _CHECK_TIMEOUT_S),
    )


def _extractor(install: Install) -> Service:
    return _worker(install, "extractor", "afterturn_extractor")


def _trainer(install: Install) -> Service:
    return _worker(install, "trainer", "afterturn_trainer", "worker")


def _worker(install: Install, name: str, module: str, *arguments: str) -> Service:
    ready = install.settings.data_dir / "run" / f"{name}.ready"
    command = _module(module, *arguments, "--ready-file", str(ready))
    return Service(
        name,
        command,
        install.environment,
        ready.is_file,
        _STOP_S,
        ready_file=ready,
        is_alive=Beats(ready),
    )


class Beats:
    """Whether a file was touched since this was last asked: a worker touches its ready file all the time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last = 0

    def __call__(self) -> bool:
        try:
            touched = self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        fresh, self._last = touched != self._last, touched
        return fresh


def _dashboard(install: Install) -> Service:
    command = dashboard_command(install.settings)
    url = install.dashboard_url
    return Service(
        "dashboard",
        command,
        install.environment,
        lambda: _answers(url),
        _STOP_S,
        is_alive=lambda: _answers(url, _CHECK_TIMEOUT_S),
    )


def dashboard_command(settings: Settings) -> tuple[str, ...]:
    """The dashboard for the gateway of the settings."""
    gateway = f"http://{reachable(settings.host)}:{settings.port}"
    return _module("afterturn_dashboard", "--port", str(settings.dashboard_port), "--gateway", gateway)


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def reachable(host: str) -> str:
    """The host by which a server bound to `host` is reached from this machine."""

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _succeeds(url: str) -> bool:
    try:
        return httpx.get(url, timeout=_PROBE_TIMEOUT_S, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _answers(url: str, timeout_s: float = _PROBE_TIMEOUT_S) -> bool:
    try:
        httpx.get(url, timeout=timeout_s, trust_env=False)
    except httpx.TransportError:
        return False
    return True
