"""What a process in a container does before it starts: wait for what it needs, then become the process.

    python -m afterturn_cli.container gateway|extractor|trainer|dashboard|engine [OPTION …]

Containers start in any order, and not every runtime knows health conditions. The gateway makes or
upgrades the schema; the workers wait for it; the engine makes the default model's folder once.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy.exc import OperationalError
from structlog.stdlib import get_logger

from afterturn_core.database import Database
from afterturn_core.errors import SchemaError, SettingsError
from afterturn_core.logs import configure_logs
from afterturn_core.settings import Settings, load_settings

PROCESSES: Final = ("gateway", "extractor", "trainer", "dashboard", "engine")
LOOK_EVERY_S: Final = 1.0

log = get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the process; returns only if that cannot be: 2 for settings or usage, 1 for a model."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in PROCESSES:
        sys.stderr.write(f"usage: python -m afterturn_cli.container {'|'.join(PROCESSES)} [OPTION …]\n")
        return 2
    try:
        settings = load_settings()
        configure_logs(settings.log_level)
        if given[0] in ("gateway", "extractor", "trainer"):
            wait_for_database(settings, migrate=given[0] == "gateway")
        elif given[0] == "engine" and not make_model(settings):
            return 1
    except SettingsError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "afterturn_cli", *given])


def wait_for_database(settings: Settings, *, migrate: bool) -> None:
    """Return once the database answers and has this version's schema, which `migrate` makes."""
    database = Database(settings.effective_database_url)
    said = ""
    try:
        while True:
            try:
                if migrate:
                    database.migrate()
                database.check_schema()
                return
            except OperationalError:
                reason = "the database does not answer"
            except SchemaError as error:
                if migrate:
                    raise SettingsError(error.message) from None
                reason = error.message
            if reason != said:
                said = reason
                log.info("waiting", reason=reason)
            time.sleep(LOOK_EVERY_S)
    finally:
        database.close()


def make_model(settings: Settings) -> bool:
    """Make the default model's folder if it is wanted and not there; false if that failed."""
    command = (sys.executable, "-m", "afterturn_engine.weights", "--model", settings.model)
    done = subprocess.run((*command, "--data-dir", str(settings.data_dir)), check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
