"""The extractor's Celery tasks: a verdict on one turn, and the sweep that the beat calls."""

from celery import Celery, Task
from structlog.stdlib import get_logger

from afterturn_core.broker import Wake, celery_app
from afterturn_core.database import Database
from afterturn_core.queues import JUDGE_TURN, SWEEP, delivery_of
from afterturn_core.settings import Settings
from afterturn_extractor.judging import Judge, judge_turn
from afterturn_extractor.model_judge.judge import ModelJudge
from afterturn_extractor.model_judge.server import JudgeAway
from afterturn_extractor.sweep import Sweep

log = get_logger(__name__)

RETRIES = 3  # by Celery; after that the sweep sends the turn again, less and less often


def extractor_app(settings: Settings, database: Database, judge: Judge | None) -> Celery:
    """The app with this worker's tasks. A turn whose judge fails stays observed and is tried again.

    Raises:
        SettingsError: no broker, or delivery times that cannot work.
    """
    delivery = delivery_of(settings)
    app = celery_app(settings.broker_url, delivery=delivery, sweep_s=settings.sweep_s)
    sweep = Sweep(
        database,
        settings,
        Wake(settings.broker_url),
        judge_came_back=judge.came_back if isinstance(judge, ModelJudge) else lambda: False,
    )

    @app.task(
        name=JUDGE_TURN,
        bind=True,
        acks_late=True,
        autoretry_for=(Exception,),
        max_retries=RETRIES,
        retry_backoff=2,
        retry_backoff_max=int(delivery.longest_retry_s),
    )
    def judge_one(task: Task[[str], None], turn_id: str) -> None:
        try:
            judge_turn(database, judge, turn_id, without_secrets=settings.masks("loss"))
        except JudgeAway as error:
            if task.request.retries < RETRIES:
                raise
            # Nothing is wrong here: no traceback for every turn of an outage.
            log.warning("judge_away", turn=turn_id, reason=error.message)

    @app.task(name=SWEEP, acks_late=False)
    def sweep_once() -> None:
        sweep.once()

    return app
