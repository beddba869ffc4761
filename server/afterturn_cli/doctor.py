"""What `afterturn doctor` looks at: effective settings, and whether what they name works."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import redis
from pydantic import SecretStr
from redis.exceptions import RedisError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlmodel import col, func, select

from afterturn_core.base_model import model_hash, model_location
from afterturn_core.database import Database
from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import AfterturnError, EngineError, SettingsError
from afterturn_core.models import Adapter, Agent, Turn
from afterturn_core.settings import Settings, sources

from .preparation import require_model

ROOM_BYTES = 2 * 1024**3  # below this a round may fill the disk

Level = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Setting:
    """An effective setting: secrets show only whether they are set."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Check:
    """What one check found. `note`: fine, but worth knowing; `broken`: something will not work."""

    name: str
    level: Level
    text: str


def effective_settings(settings: Settings) -> list[Setting]:
    """Every setting with where it came from."""
    origin = sources(settings)
    return [
        Setting(f"AFTERTURN_{name.upper()}", _shown(getattr(settings, name)), origin[name])
        for name in type(settings).model_fields
    ]


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    text = "" if value is None else str(value)
    if "://" in text and "@" in text:
        try:
            return make_url(text).render_as_string(hide_password=True)
        except ArgumentError:
            return "********"
    return text


def examine(settings: Settings) -> list[Check]:
    """Run every check; each says what to do about what is broken."""
    checks: list[Callable[[Settings], Check]] = [_disk, _model, _database, _broker, _engine, _adapters, _gpu]
    return [check(settings) for check in checks]


def _disk(settings: Settings) -> Check:
    folder = settings.data_dir.resolve()
    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    if not os.access(place, os.W_OK):
        return Check("disk", "broken", f"{place} cannot be written: set AFTERTURN_DATA_DIR")
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GiB free in {place}"
    if free < ROOM_BYTES:
        return Check("disk", "broken", f"{text}: make room, rounds need 2 GiB")
    return Check("disk", "ok", text)


def _model(settings: Settings) -> Check:
    location = model_location(settings)
    if settings.model == "default" and not Path(location).exists():
        return Check("model", "note", "not made yet: `afterturn up` makes it on its first start")
    try:
        require_model(location)
    except SettingsError as error:
        return Check("model", "broken", error.message)
    if Path(location).is_dir():
        return Check("model", "ok", f"{location} (hash {model_hash(location)})")
    return Check("model", "note", f"{location} is no folder here, so it is taken for a hub id")


def _database(settings: Settings) -> Check:
    url = settings.effective_database_url
    shown = make_url(url).render_as_string(hide_password=True)
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return Check(
            "database", "note", f"{shown} is not there yet: `afterturn up` or `afterturn migrate` makes it"
        )
    database = Database(url)
    try:
        database.ping()
        database.check_schema()
    except AfterturnError as error:
        return Check("database", "broken", error.message)
    except SQLAlchemyError as error:
        return Check("database", "broken", f"{shown} does not answer: {type(error).__name__}")
    finally:
        database.close()
    return Check("database", "ok", shown)


def _broker(settings: Settings) -> Check:
    if not settings.broker_url:
        return Check("broker", "note", "embedded: `afterturn up` starts it")
    shown = _shown(settings.broker_url)
    client = redis.Redis.from_url(settings.broker_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        return Check("broker", "broken", f"{shown} does not answer: {error}")
    finally:
        client.close()
    return Check("broker", "ok", shown)


def _engine(settings: Settings) -> Check:
    answers = []
    for url in settings.engine_urls:
        with EngineClient(url, settings.engine_api_key.get_secret_value(), timeout_s=5) as engine:
            try:
                card = engine.base_model()
            except EngineError as error:
                if settings.engine_url:
                    return Check("engine", "broken", error.message)
                return Check("engine", "note", f"embedded, not running at {url}: `afterturn up` starts it")
        answers.append(f"{url} serves {card.id} with {card.max_model_len} tokens")
    return Check("engine", "ok", "; ".join(answers))


def _adapters(settings: Settings) -> Check:
    """Adapters and turns of another base model are neither loaded nor trained, and come back with it."""
    location = model_location(settings)
    if not Path(location).is_dir() or _database(settings).level != "ok":
        return Check("adapters", "note", "not checked: that needs the model and the database")
    own = model_hash(location)
    database = Database(settings.effective_database_url)
    try:
        with database.read() as session:
            served = session.exec(
                select(Adapter.name, Adapter.model_hash, Agent.name).join(
                    Agent,
                    func.coalesce(col(Agent.pinned_adapter_id), col(Agent.live_adapter_id)) == Adapter.id,
                )
            ).all()
            waiting = session.exec(
                select(func.count())
                .select_from(Turn)
                .where(Turn.state == "judged", col(Turn.held_out).is_(False), Turn.model_hash != own)
            ).one()
    finally:
        database.close()
    turns = f"; {waiting} judged turns that another base model sampled wait for it" if waiting else ""
    foreign = [(name, agent) for name, other, agent in served if other != own]
    if foreign:
        names, agents = (sorted({pair[i] for pair in foreign}) for i in (0, 1))
        return Check(
            "adapters",
            "broken",
            f"made for another base model than {settings.model} ({own}): {', '.join(names)}. The base model "
            f"answers for {', '.join(agents)} and nothing is trained{turns}. Set AFTERTURN_MODEL back and "
            "everything is as it was, or begin anew on this model: "
            + ", ".join(f"`afterturn adapters rollback {agent} --to 0`" for agent in agents),
        )
    if turns:
        return Check("adapters", "note", f"{len(served)} live, all made for this base model{turns}")
    return Check("adapters", "ok", f"{len(served)} live, all made for this base model")


def _gpu(_settings: Settings) -> Check:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Check("gpu", "note", "none: the embedded engine and the trainer use the processor")
    asked = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("gpu", "note", f"nvidia-smi does not answer: {type(error).__name__}")
    if answer.returncode != 0:
        return Check("gpu", "note", "nvidia-smi finds no GPU")
    return Check("gpu", "ok", "; ".join(answer.stdout.strip().splitlines()))
