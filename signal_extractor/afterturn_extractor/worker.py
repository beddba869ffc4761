"""The extractor's worker: a few threads for verdicts and sweeps, and the beat that asks for sweeps."""

from pathlib import Path
from typing import Final

from afterturn_core.broker import refuse_unusable_broker
from afterturn_core.database import Database
from afterturn_core.queues import EXTRACT_QUEUE, SWEEP_QUEUE, delivery_of
from afterturn_core.settings import Settings
from afterturn_core.worker import run_worker
from afterturn_extractor.beat import Beat
from afterturn_extractor.judging import Judge
from afterturn_extractor.tasks import extractor_app

# Verdicts of a model wait for its server; those of the rules for the database alone, and one more thread only
# takes the interpreter from the others.
THREADS: Final = {"openai": 4, "rules": 2, "off": 2}


def work(settings: Settings, database: Database, judge: Judge | None, ready_file: Path | None) -> int:
    """Work until told to stop; returns the exit code.

    Raises:
        SettingsError: settings that cannot work.
    """
    app = extractor_app(settings, database, judge)
    refuse_unusable_broker(settings.broker_url)
    with Beat(app):
        return run_worker(
            app,
            (EXTRACT_QUEUE, SWEEP_QUEUE),
            pool="threads",
            concurrency=THREADS[settings.judge],
            delivery=delivery_of(settings),
            ready_file=ready_file,
        )
