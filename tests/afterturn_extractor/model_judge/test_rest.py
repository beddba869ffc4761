"""When a server that failed may be asked again, on a clock of our own."""

from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime

import pytest

from afterturn_core.columns import utc_now
from afterturn_extractor.model_judge.rest import BELIEVED_S, LONGEST_S, OUTAGE_S, Rest, retry_after_s


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_server_that_works_is_asked_at_once() -> None:
    rest = Rest(60)
    assert rest.ask() == rest.ask() == 0
    rest.answered()
    assert rest.ask() == 0
    assert not rest.came_back()


def test_what_the_server_says_holds_for_everybody_to_the_second() -> None:
    clock = Clock()
    rest = Rest(60, clock)
    rest.failed(told_s=300)
    assert rest.ask() == 300
    rest.failed(told_s=20)  # an older answer that came later takes nothing back
    rest.answered()
    clock.now += 299.5
    assert rest.ask() == 0.5
    clock.now += 0.5
    assert rest.ask() == 0


def test_pauses_of_a_server_that_says_nothing_grow_to_a_limit() -> None:
    clock = Clock()
    rest = Rest(60, clock)
    pauses = []
    for _ in range(12):
        rest.failed()
        pauses.append(rest.ask())
        clock.now += pauses[-1]
        assert rest.ask() == 0
    assert all(0 < pause <= LONGEST_S * 1.25 for pause in pauses)
    assert pauses[0] < 1
    assert min(pauses[-4:]) >= LONGEST_S * 0.75


def test_one_tries_while_the_others_wait_for_what_comes_of_it() -> None:
    clock = Clock()
    rest = Rest(60, clock)
    rest.failed()
    clock.now += LONGEST_S
    assert rest.ask() == 0
    assert 0 < rest.ask() < 1  # to look again soon
    clock.now += 1
    rest.answered()
    assert rest.ask() == rest.ask() == 0


def test_an_end_of_an_outage_is_told_once_and_a_hiccup_never() -> None:
    clock = Clock()
    rest = Rest(60, clock)
    rest.failed()
    rest.answered()
    assert not rest.came_back()
    rest.failed()
    clock.now += OUTAGE_S
    rest.failed()
    rest.answered()
    assert rest.came_back()
    assert not rest.came_back()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0.5", 0.5), ("", None), ("-3", None), ("0", None), ("soon", None), ("nan", None),
     ("1e99", BELIEVED_S), ("Wed, 01 Jan 2020 00:00:00 GMT", None)],
)  # fmt: skip
def test_a_retry_after_is_a_number_of_seconds(header: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": header}) == seconds


def test_or_a_date() -> None:
    told = retry_after_s({"retry-after": format_datetime(utc_now() + timedelta(hours=1), usegmt=True)})
    assert told is not None
    assert told == pytest.approx(3600, abs=60)
    assert retry_after_s({}) is None
