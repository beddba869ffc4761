"""Two trainers for field case B16, on real Celery workers.

    python -m tests.services.stub_trainer shipped|late --ready-file PATH

`shipped` is Afterturn's own worker with the stub as its round's process. `late` is the one of the field
case, which Afterturn refuses to be: it trains inside a task that is acknowledged late, for longer than the
visibility time-out, so that Redis does deliver again.
"""

import os
import sys
from pathlib import Path

from tests.services.stub_round import stub_round

from afterturn_core.broker import celery_app
from afterturn_core.logs import configure_logs
from afterturn_core.queues import TRAIN_QUEUE, TRAIN_ROUND, Delivery
from afterturn_core.settings import Settings, load_settings
from afterturn_core.worker import run_worker
from afterturn_trainer.worker import work


def late(settings: Settings, folder: Path, ready_file: Path) -> int:
    """Train in the task itself, as nobody should."""
    delivery = Delivery(settings.visibility_timeout_s, task_limit_s=3600)
    app = celery_app(settings.broker_url, delivery=delivery)

    @app.task(name=TRAIN_ROUND, acks_late=True, bind=True)
    def train_round(self: object, round_id: str) -> None:
        delivered = folder / "delivered" / str(self.request.id)  # type: ignore[attr-defined]
        delivered.mkdir(parents=True, exist_ok=True)
        (delivered / str(os.getpid())).touch()
        stub_round(settings, round_id, folder)

    return run_worker(
        app, (TRAIN_QUEUE,), pool="threads", concurrency=1, delivery=delivery, ready_file=ready_file
    )


if __name__ == "__main__":
    configure_logs("info")
    kind, folder, ready_file = sys.argv[1], Path(os.environ["STUB_FOLDER"]), Path(sys.argv[3])
    if kind == "late":
        sys.exit(late(load_settings(), folder, ready_file))
    sys.exit(work(load_settings(), ready_file, (sys.executable, "-m", "tests.services.stub_round")))
