"""The trainer's two processes: a worker that takes messages, and one round in a process of its own.

python -m afterturn_trainer worker [--ready-file PATH]
python -m afterturn_trainer round ROUND_ID
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from afterturn_core.database import Database
from afterturn_core.errors import SchemaError, SettingsError
from afterturn_core.logs import configure_logs
from afterturn_core.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 done, 1 failed, 2 settings or a schema that cannot work."""
    parser = argparse.ArgumentParser(prog="python -m afterturn_trainer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("worker", help="take claimed rounds and start a process for each")
    worker.add_argument("--ready-file", type=Path, help="made once the worker takes messages")
    commands.add_parser("round", help="train one claimed round").add_argument("round_id")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        configure_logs(settings.log_level)
        # Imported here: a worker never loads torch, and a round never loads Celery's worker.
        if options.command == "worker":
            from afterturn_trainer.worker import work

            return work(settings, options.ready_file)
        database = Database(settings.effective_database_url)
        try:
            database.check_schema()
        finally:
            database.close()
        # Before torch is loaded: threads that spin while they wait take the cores from the engine beside us.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from afterturn_trainer.run import run_round

        return run_round(options.round_id, settings)
    except (SettingsError, SchemaError) as error:
        sys.stderr.write(f"{error.message}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
