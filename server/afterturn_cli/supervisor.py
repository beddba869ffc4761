"""A whole one-machine install in one object: prepared, started, watched, stopped."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from dotenv import dotenv_values

from afterturn_core.errors import SettingsError
from afterturn_core.settings import Settings, load_settings

from . import preparation
from .embedded_broker import broker_url
from .ports import free_ports, require_free
from .services import Install, broker_folder, services
from .watch import Notice, Report, Watch

START_S = 180.0  # the first start converts a model on a slow disk


@dataclass(frozen=True)
class Ports:
    """Where the servers listen."""

    gateway: int
    dashboard: int
    engine: int

    @classmethod
    def free(cls) -> Self:
        """Ports that nobody uses right now."""
        return cls(*free_ports(3))


class Stack:
    """Every process of a one-machine install, for as long as the `with` block runs.

        with Stack(data_dir=folder, ports=Ports.free(), env={"AFTERTURN_MODEL": model}) as stack:
            client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.api_key)

    Args:
        data_dir: instead of AFTERTURN_DATA_DIR.
        ports: instead of AFTERTURN_PORT and its like.
        env: variables for the processes over those of this one; an AFTERTURN_* variable with an
            empty value takes the setting back to its default.
        dashboard: whether to run the dashboard.
        start_s: seconds within which every process has to be ready.
        report: told about everything that happens to a process, also from another thread.

    Entering raises SettingsError before anything is started if a setting or port cannot be used,
    ServiceFailed if a process does not come up.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        ports: Ports | None = None,
        env: Mapping[str, str] | None = None,
        dashboard: bool = False,
        start_s: float = START_S,
        report: Report | None = None,
    ) -> None:
        given = dict(env or {})
        if data_dir is not None:
            given["AFTERTURN_DATA_DIR"] = str(data_dir)
        if ports is not None:
            given["AFTERTURN_PORT"] = str(ports.gateway)
            given["AFTERTURN_DASHBOARD_PORT"] = str(ports.dashboard)
            given["AFTERTURN_ENGINE_PORT"] = str(ports.engine)
        self._given = given
        self._with_dashboard = dashboard
        self._start_s = start_s
        self._report: Report = report or (lambda notice: None)
        self._exits = ExitStack()
        self._install: Install | None = None
        self._watch: Watch | None = None
        self.first_start = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:  # Ctrl-C too: `__exit__` is not called for what never began
            self._exits.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def _start(self) -> None:
        settings = load_settings(self._given)
        settings = settings.model_copy(update={"data_dir": settings.data_dir.resolve()})
        if settings.model != "default":
            preparation.require_model(settings.model)
        self._require_ports(settings)
        self._exits.enter_context(preparation.held_folder(settings.data_dir))
        environment = os.environ | self._given
        environment |= {"AFTERTURN_DATA_DIR": str(settings.data_dir), "PYTHONUNBUFFERED": "1"}
        broker_port = None
        if not settings.broker_url:
            (broker_port,) = free_ports(1)
            url = broker_url(broker_folder(settings.data_dir), broker_port)
            settings = settings.model_copy(update={"broker_url": url})
        model = preparation.prepare_model(settings, environment, self._say("model"))
        settings = settings.model_copy(update={"model": model})
        environment |= {"AFTERTURN_MODEL": model, "AFTERTURN_BROKER_URL": settings.broker_url}
        self._say("database")("making or upgrading the tables")
        self.first_start = preparation.prepare_database(settings)
        self._install = Install(settings, environment, broker_port, self._with_dashboard)
        self._watch = Watch(services(self._install), settings.data_dir / "logs", self._report)
        self._exits.callback(self._watch.stop)
        self._watch.start()
        self._watch.wait_ready(self._start_s)

    def _require_ports(self, settings: Settings) -> None:
        require_free(settings.host, settings.port, "AFTERTURN_PORT")
        if not settings.engine_url:
            require_free("127.0.0.1", settings.engine_port, "AFTERTURN_ENGINE_PORT")
        if self._with_dashboard:
            require_free(settings.host, settings.dashboard_port, "AFTERTURN_DASHBOARD_PORT")

    def _say(self, service: str) -> preparation.Say:
        return lambda line: self._report(Notice(service, "starting", line))

    @property
    def install(self) -> Install:
        """What was started."""
        if self._install is None:
            raise RuntimeError("the stack was not started")
        return self._install

    @property
    def watch(self) -> Watch:
        """Who watches over the processes."""
        if self._watch is None:
            raise RuntimeError("the stack was not started")
        return self._watch

    @property
    def settings(self) -> Settings:
        """Effective settings of the install."""
        return self.install.settings

    @property
    def url(self) -> str:
        """The gateway's root, without `/v1`."""
        return self.install.gateway_url

    @property
    def dashboard_url(self) -> str | None:
        """The dashboard's root, if there is one."""
        return self.install.dashboard_url if self._with_dashboard else None

    @property
    def data_dir(self) -> Path:
        """Where the install keeps everything."""
        return self.settings.data_dir

    @property
    def api_key(self) -> str:
        """The first key of the agent `default`."""
        return self._key("AFTERTURN_API_KEY")

    @property
    def admin_key(self) -> str:
        """The admin key."""
        return self.settings.admin_key.get_secret_value() or self._key("AFTERTURN_ADMIN_KEY")

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by service: broker, engine, extractor, trainer, gateway, dashboard."""
        return self.watch.pids

    @property
    def restart_counts(self) -> dict[str, int]:
        """How often each service was started again."""
        return self.watch.restart_counts

    def wait_ready(self, timeout_s: float = START_S) -> None:
        """Wait until every process is ready (again)."""
        self.watch.wait_ready(timeout_s)

    def _key(self, name: str) -> str:
        key = dotenv_values(self.settings.keys_file).get(name)
        if not key:
            raise SettingsError(f"{self.settings.keys_file} holds no {name}: it was edited or removed")
        return key
