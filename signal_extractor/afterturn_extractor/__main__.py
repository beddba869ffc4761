"""The extractor's process: a Celery worker for the queue `extract`, with the beat inside.

python -m afterturn_extractor [--ready-file PATH]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from afterturn_core.database import Database
from afterturn_core.errors import SchemaError, SettingsError
from afterturn_core.logs import configure_logs
from afterturn_core.settings import Settings, load_settings
from afterturn_extractor import rules
from afterturn_extractor.evidence import Evidence, NextStatePart
from afterturn_extractor.judging import judge_of
from afterturn_extractor.worker import work


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until told to stop; 2 for settings or a schema that cannot work."""
    parser = argparse.ArgumentParser(prog="python -m afterturn_extractor", description=__doc__)
    parser.add_argument("--ready-file", type=Path, help="made once the worker takes messages")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        configure_logs(settings.log_level)
        return _work(settings, options.ready_file)
    except (SettingsError, SchemaError) as error:
        sys.stderr.write(f"{error.message}\n")
        return 2


def _work(settings: Settings, ready_file: Path | None) -> int:
    database = Database(settings.effective_database_url)
    try:
        database.check_schema()
        judge = judge_of(settings, database)
        if judge is not None:
            # The word lists are compiled by the first verdict: better now than while a turn waits.
            rules.judge(Evidence(None, (), "", (), (NextStatePart("user", "Thanks."),)))
        return work(settings, database, judge, ready_file)
    finally:
        database.close()


if __name__ == "__main__":
    sys.exit(main())
