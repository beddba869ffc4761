"""What Celery promises here, chosen in one place, and the check that the choices fit together.

The rule behind all of them: the database knows what is to be done, a message only says when to look.
So a message may be lost or come twice, and nothing here tries to prevent either at a price.

- `extract` is acknowledged after the verdict is stored: a judge costs seconds or money, and what a killed
  worker had in hand goes to another one without waiting for the sweep.
- `sweep` is acknowledged when it is taken: the next one is due in seconds. It is a queue of its own, since
  behind a thousand verdicts a sweep would expire unread.
- `train` is acknowledged when it is taken: training outlasts any visibility time-out, so none of it happens
  inside a task. The round's lease in the database says who works on it; what nobody holds is sent again.
- No result backend: results are rows.
- Prefetch is one message a thread: verdicts take unequal time, and what is reserved no other worker takes.
- Messages expire (`TTL_S`): whoever was away for long finds the sweep's latest word instead of a pile.
- No forks: the pools are threads and solo. A child would inherit locks and threads of SQLite, psycopg,
  the broker's client and torch, none of which survive it. A round is spawned: a new program.
- A thread cannot be killed, so the time limit of a task ends its process (`time_limit.py`).
- A stopped worker (SIGTERM) finishes what runs and gives back what it has reserved.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from .errors import SettingsError
from .settings import Settings

EXTRACT_QUEUE: Final = "extract"
SWEEP_QUEUE: Final = "sweep"
TRAIN_QUEUE: Final = "train"

JUDGE_TURN: Final = "afterturn.judge_turn"  # (turn_id)
TRAIN_ROUND: Final = "afterturn.train_round"  # (round_id)
SWEEP: Final = "afterturn.sweep"  # ()

PREFETCH: Final = 1  # messages reserved for each thread beside the one in hand
TTL_S: Final = 600.0  # the sweep's longest pause: by then it has sent the message again
POOLS: Final = ("threads", "solo")


@dataclass(frozen=True)
class Delivery:
    """The times, in seconds, that decide when Redis hands a message to a second worker."""

    visibility_s: float = 3600.0
    task_limit_s: float = 600.0

    @property
    def longest_hold_s(self) -> float:
        """How long a message can be with one worker: reserved behind others, then in hand."""
        return (PREFETCH + 1) * self.task_limit_s

    @property
    def longest_retry_s(self) -> float:
        """The longest pause before a failed task is tried again: its message waits in a worker's hands."""
        return min(60.0, self.visibility_s / 4)

    @property
    def restore_every_s(self) -> float:
        """How often workers look for messages whose worker is gone."""
        return max(1.0, min(10.0, self.visibility_s / 4))


def delivery_of(settings: Settings) -> Delivery:
    """The settings' delivery times.

    Raises:
        SettingsError: messages would go to a second worker while the first still works on them.
    """
    delivery = Delivery(settings.visibility_timeout_s, settings.task_time_limit_s)
    if delivery.visibility_s <= delivery.longest_hold_s:
        raise SettingsError(
            f"AFTERTURN_VISIBILITY_TIMEOUT_S: {delivery.visibility_s:g} s is too short. A worker can hold a "
            f"message for {delivery.longest_hold_s:g} s ({PREFETCH + 1} times AFTERTURN_TASK_TIME_LIMIT_S, "
            f"{delivery.task_limit_s:g} s, since one waits behind the one in hand), and Redis would give it "
            f"to a second one meanwhile. Set more than {delivery.longest_hold_s:g}, or a shorter limit."
        )
    return delivery


def check_pool(pool: str, modules: Collection[str]) -> None:
    """Whether a worker can run in this pool with these modules loaded (`sys.modules`).

    Raises:
        SettingsError: the pool forks, or torch is loaded where only ids are handed on.
    """
    if pool not in POOLS:
        raise SettingsError(
            f"the worker pool {pool!r} cannot work, use {' or '.join(POOLS)}: its children would inherit "
            "locks and threads that do not survive a fork, and with late acknowledgement every task of a "
            "child that hangs would be handed out again"
        )
    if "torch" in modules:
        raise SettingsError(
            "torch is loaded in a Celery worker's own process: training belongs into the process of a round, "
            "which is spawned and gives its memory back"
        )
