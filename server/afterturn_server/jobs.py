"""Work that requests wait for while a thread does it, in groups when several wait."""

import asyncio
import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

from sqlmodel import Session

U = TypeVar("U")
T = TypeVar("T")
Work = Callable[[Session, Sequence[U]], Sequence[T]]


@dataclass(frozen=True)
class Job(Generic[U, T]):
    """What one request wants of the database; `result` is of `loop`, which alone may touch it.

    `work` gives a value for each item: neighbours with the same work are done in one call.
    """

    work: Work[U, T]
    item: U
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[T]

    @property
    def given_up(self) -> bool:
        """Whether nobody waits any more; then it is better not done than done in secret."""
        return self.result.done()


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its value, unless there is an error."""

    job: Job[Any, Any]
    value: Any = None
    error: Exception | None = None


class Jobs:
    """Jobs in the order in which they came, for one thread or several that take `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: queue.SimpleQueue[Job[Any, Any] | None] = queue.SimpleQueue()

    def __len__(self) -> int:
        return self._waiting.qsize()

    def put(self, work: Work[U, T], item: U) -> Job[U, T]:
        """Ask for work, from a running loop."""
        loop = asyncio.get_running_loop()
        job = Job(work, item, loop, loop.create_future())
        self._waiting.put(job)
        return job

    def close(self) -> None:
        """End the groups of one thread, after all that wait already."""
        self._waiting.put(None)

    def groups(self) -> Iterator[list[Job[Any, Any]]]:
        """What waits and is still waited for, group by group, until closed."""
        while (first := self._waiting.get()) is not None:
            group = [first]
            last = False
            with suppress(queue.Empty):
                while len(group) < self._most and not last:
                    job = self._waiting.get_nowait()
                    last = job is None
                    if job is not None:
                        group.append(job)
            yield [job for job in group if not job.given_up]
            if last:
                return


def each(session: Session, changes: Sequence[Callable[[Session], T]]) -> list[T]:
    """The work of jobs that have nothing in common: what is to be done is the item."""
    return [change(session) for change in changes]


def done(session: Session, group: Sequence[Job[Any, Any]]) -> list[Any]:
    """The values of a group of jobs, in order."""
    values: list[Any] = []
    for work, jobs in groupby(group, key=lambda job: job.work):
        values += work(session, [job.item for job in jobs])
    return values


def tell(outcomes: Sequence[Outcome]) -> None:
    """Wake those who wait, each loop once: waking costs more than the news."""
    for loop in {one.job.loop for one in outcomes}:
        with suppress(RuntimeError):  # a loop that has ended took with it whoever waited
            loop.call_soon_threadsafe(_settle, [one for one in outcomes if one.job.loop is loop])


def _settle(outcomes: Sequence[Outcome]) -> None:
    for one in outcomes:
        if one.job.given_up:
            continue
        if one.error is not None:
            one.job.result.set_exception(one.error)
        else:
            one.job.result.set_result(one.value)
