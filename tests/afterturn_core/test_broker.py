"""What Celery is told, and what is refused because it cannot work (B16's check, B36's pools)."""

import os
import subprocess
import sys

import pytest

from afterturn_core.broker import Wake, celery_app
from afterturn_core.errors import SettingsError
from afterturn_core.queues import SWEEP, Delivery, check_pool, delivery_of
from afterturn_core.settings import Settings

URL = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("visibility_s", "limit_s", "works"),
    [
        (3600, 600, True),
        (5, 2, True),
        (5, 2.5, False),
        (600, 600, False),
        (599, 600, False),
        (1200, 600, False),
    ],
)
def test_a_visibility_time_out_must_outlast_what_a_worker_may_hold(
    visibility_s: float, limit_s: float, works: bool
) -> None:
    """B16: a message waits behind the one in hand, so twice the limit is what one worker can hold it."""
    settings = Settings(visibility_timeout_s=visibility_s, task_time_limit_s=limit_s)
    if works:
        assert delivery_of(settings) == Delivery(visibility_s, limit_s)
        return
    with pytest.raises(SettingsError, match="AFTERTURN_VISIBILITY_TIMEOUT_S"):
        delivery_of(settings)


@pytest.mark.parametrize("visibility_s", [1.0, 5.0, 100.0, 3600.0])
def test_no_retry_waits_longer_than_the_visibility_time_out(visibility_s: float) -> None:
    """B16: a countdown longer than that makes Redis hand the message to every worker in turn."""
    assert Delivery(visibility_s, 0.1).longest_retry_s < visibility_s


@pytest.mark.parametrize("pool", ["prefork", "processes", "gevent"])
def test_a_pool_that_forks_is_refused(pool: str) -> None:
    with pytest.raises(SettingsError, match="fork"):
        check_pool(pool, ())


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_worker_that_has_loaded_torch_is_refused(pool: str) -> None:
    """B36: what the parent initialised, CUDA above all, is of no use to anybody and in everybody's way."""
    check_pool(pool, ("celery", "sqlite3"))
    with pytest.raises(SettingsError, match="torch"):
        check_pool(pool, ("celery", "torch"))


def test_results_are_rows_and_workers_take_no_orders() -> None:
    app = celery_app(URL, delivery=Delivery(50, 20), sweep_s=3)
    assert app.conf.result_backend is None
    assert app.conf.task_ignore_result is True
    assert app.conf.worker_enable_remote_control is False
    assert app.conf.accept_content == ["json"]
    assert app.conf.broker_connection_max_retries is None
    assert app.conf.broker_transport_options["visibility_timeout"] == 50
    assert app.conf.beat_schedule["sweep"]["task"] == SWEEP
    assert app.conf.beat_schedule["sweep"]["options"]["expires"] == 6


def test_an_app_without_a_broker_is_refused_and_a_wake_without_one_says_so() -> None:
    with pytest.raises(SettingsError, match="AFTERTURN_BROKER_URL"):
        celery_app("")
    assert Wake("").judge("turn_1") is False


def test_a_broker_that_is_away_is_no_error() -> None:
    wake = Wake(URL)
    assert wake.judge("turn_1") is False
    assert wake.train("round_1") is False


def test_nothing_that_only_hands_on_ids_loads_torch() -> None:
    """B36: neither by themselves nor by what they import."""
    code = (
        "import sys, afterturn_extractor.worker, afterturn_trainer.worker; "
        "sys.exit(sum(name.split('.')[0] in ('torch', 'transformers') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False)
    assert done.returncode == 0
