"""Counting what is large: seldom, one at a time, and never in the way of whoever asks."""

import asyncio

import pytest

from afterturn_server.admin.figures import REST, Figures


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Counter:
    """Counts how often it counted; each time takes `takes` seconds of the clock."""

    def __init__(self, clock: Clock, takes: float) -> None:
        self.clock, self.takes, self.times = clock, takes, 0
        self.failing = False

    async def __call__(self) -> int:
        await asyncio.sleep(0)
        if self.failing:
            raise OSError("the database is away")
        self.times += 1
        self.clock.seconds += self.takes
        return self.times


def test_what_is_cheap_is_counted_for_every_request() -> None:
    async def ask() -> list[int]:
        clock = Clock()
        figures = Figures(Counter(clock, 0.01), clock)
        return [await figures.now() for _ in range(3)]

    assert asyncio.run(ask()) == [1, 2, 3]


def test_what_takes_long_is_counted_again_only_after_a_long_rest() -> None:
    async def ask() -> None:
        clock = Clock()
        counter = Counter(clock, 4.0)
        figures = Figures(counter, clock)
        assert await figures.now() == 1
        clock.seconds += REST * 4.0
        assert [await figures.now() for _ in range(5)] == [1] * 5
        assert counter.times == 1
        clock.seconds += 1
        assert await figures.now() == 1  # as it was: the new count has just begun
        await figures.settled()
        assert await figures.now() == 2
        assert counter.times == 2

    asyncio.run(ask())


def test_many_who_ask_at_once_share_one_count() -> None:
    async def ask() -> list[int]:
        clock = Clock()
        figures = Figures(Counter(clock, 4.0), clock)
        return await asyncio.gather(*(figures.now() for _ in range(20)))

    assert asyncio.run(ask()) == [1] * 20


def test_a_count_that_fails_is_told_once_and_tried_again() -> None:
    async def ask() -> None:
        clock = Clock()
        counter = Counter(clock, 4.0)
        figures = Figures(counter, clock)
        counter.failing = True
        with pytest.raises(OSError, match="away"):
            await figures.now()
        counter.failing = False
        assert await figures.now() == 1

    asyncio.run(ask())
