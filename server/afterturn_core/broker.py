"""The Celery app. Messages carry ids and wake workers; losing every one of them loses nothing."""

import threading
import time
from typing import Final

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from structlog.stdlib import get_logger

from .errors import SettingsError
from .queues import (
    EXTRACT_QUEUE,
    JUDGE_TURN,
    PREFETCH,
    SWEEP,
    SWEEP_QUEUE,
    TRAIN_QUEUE,
    TRAIN_ROUND,
    TTL_S,
    Delivery,
)

SOCKET_TIMEOUT_S: Final = 5.0  # a broker that is frozen, and not gone, is given up after this
CONNECT_TIMEOUT_S: Final = 2.0
PAUSE_S: Final = 5.0  # between two tries to send to a broker that is away

log = get_logger(__name__)


def celery_app(broker_url: str, *, delivery: Delivery | None = None, sweep_s: float | None = None) -> Celery:
    """The app that every process uses, set as `queues.py` says; `sweep_s` gives the beat its schedule.

    Raises:
        SettingsError: no broker.
    """
    _refuse_empty(broker_url)
    times = delivery or Delivery()
    app = Celery("afterturn", broker=broker_url)
    app.conf.update(
        task_default_queue=EXTRACT_QUEUE,
        task_routes={
            JUDGE_TURN: {"queue": EXTRACT_QUEUE},
            SWEEP: {"queue": SWEEP_QUEUE},
            TRAIN_ROUND: {"queue": TRAIN_QUEUE},
        },
        task_ignore_result=True,
        # Each task says when it is acknowledged; one that says nothing is not lost by a kill.
        task_acks_late=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=PREFETCH,
        worker_hijack_root_logger=False,
        # Whoever reaches Redis could stop workers with it, and nothing here asks them anything.
        worker_enable_remote_control=False,
        # A verdict that is being made when the connection breaks is stored; made twice, it changes nothing.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # a broker that is away is waited for, however long
        broker_transport_options={
            "visibility_timeout": times.visibility_s,
            "unacked_restore_interval": times.restore_every_s,
            "unacked_restore_throttle": 1,
            # A worker killed while it looked keeps all others from looking for this long.
            "unacked_mutex_expire": 10,
            "health_check_interval": 10,
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_keepalive": True,
            # For those who send: they have something better to do than to wait.
            "max_retries": 1,
            "interval_start": 0,
            "interval_max": 0.2,
        },
        beat_schedule={}
        if sweep_s is None
        else {
            "sweep": {
                "task": SWEEP,
                "schedule": sweep_s,
                # A sweep that nobody took in time is worth nothing: the next one is due.
                "options": {"queue": SWEEP_QUEUE, "expires": max(sweep_s * 2, 5), "retry": False},
            }
        },
    )
    return app


def refuse_unusable_broker(broker_url: str) -> None:
    """Ask the broker once. One that cannot be reached is only logged: the worker waits for it.

    Raises:
        SettingsError: there is no URL, or it can never work: malformed, another password, no such database.
    """
    _refuse_empty(broker_url)
    try:
        with redis.Redis.from_url(
            broker_url, socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S
        ) as client:
            client.ping()
    except (AuthenticationError, ResponseError) as error:
        raise SettingsError(f"AFTERTURN_BROKER_URL: the broker refuses it: {error}") from None
    except (RedisError, OSError) as error:
        log.warning("waiting_for_broker", error=type(error).__name__)
    except ValueError as error:
        raise SettingsError(f"AFTERTURN_BROKER_URL: {error}") from None


def _refuse_empty(broker_url: str) -> None:
    if not broker_url:
        raise SettingsError("AFTERTURN_BROKER_URL is empty: `afterturn up` sets it, or give a redis:// URL")


class Wake:
    """Wakes workers after a commit. A broker that is away costs nobody time: the sweep sends again.

    After a failure nothing is tried for `pause_s`, so that a frozen broker, which takes seconds to
    give up, does not pile up those who wait for it. Safe for use by several threads.
    """

    def __init__(self, broker_url: str, *, pause_s: float = PAUSE_S) -> None:
        self._app = celery_app(broker_url) if broker_url else None
        self._client = (
            redis.Redis.from_url(
                broker_url, socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S
            )
            if broker_url
            else None
        )
        self._pause_s = pause_s
        self._away_until: float | None = None
        self._changing = threading.Lock()

    def judge(self, turn_id: str) -> bool:
        """Ask for a verdict on an observed turn; returns whether the message was sent."""
        return self._send(JUDGE_TURN, turn_id, EXTRACT_QUEUE)

    def train(self, round_id: str) -> bool:
        """Ask a trainer to take a claimed round; returns whether the message was sent."""
        return self._send(TRAIN_ROUND, round_id, TRAIN_QUEUE)

    def waiting(self) -> int:
        """How many verdicts the broker was asked for that no worker has begun; 0 if it cannot say."""
        if self._client is None or not self._may_try():
            return 0
        try:
            return self._client.llen(EXTRACT_QUEUE)
        except (RedisError, OSError) as error:
            self._note(away=type(error).__name__)
            return 0

    def _may_try(self) -> bool:
        with self._changing:
            return self._away_until is None or time.monotonic() >= self._away_until

    def _send(self, task: str, subject: str, queue: str) -> bool:
        if self._app is None:
            return False
        if not self._may_try():
            return False
        try:
            self._app.send_task(task, args=[subject], queue=queue, expires=TTL_S, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            self._note(away=type(error).__name__)
            return False
        self._note(away=None)
        return True

    def _note(self, *, away: str | None) -> None:
        """Say when an outage begins and when it ends, and nothing in between."""
        with self._changing:
            before = self._away_until
            self._away_until = None if away is None else time.monotonic() + self._pause_s
        if away is not None and before is None:
            log.warning("broker_away", error=away)
        elif away is None and before is not None:
            log.info("broker_back")
