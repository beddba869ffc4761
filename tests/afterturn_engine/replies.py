"""Replies straight from a scheduler, without HTTP."""

import queue
from collections.abc import Callable
from typing import Any

from afterturn_engine.adapters import Adapter
from afterturn_engine.detokenizer import Detokenizer
from afterturn_engine.errors import EngineError
from afterturn_engine.generation import joined
from afterturn_engine.model import Model
from afterturn_engine.scheduler import Scheduler
from afterturn_engine.sequence import Delta, Sampling, Sequence

PATIENCE_S = 60.0


class Reply:
    """One sequence and what has been heard of it."""

    def __init__(
        self,
        model: Model,
        prompt_ids: list[int],
        adapter: Adapter | None = None,
        leader: "Reply | None" = None,
        on_delta: Callable[[], None] = lambda: None,
        **sampling: Any,
    ) -> None:
        self._events: queue.Queue[Delta | EngineError] = queue.Queue()
        self._on_delta = on_delta
        fields = {"max_tokens": 12, "temperature": 0.0, "ignore_eos": True, "logprobs": 0} | sampling
        self.sequence = Sequence(
            prompt_ids,
            Sampling(eos_token_ids=model.eos_token_ids, **fields),
            adapter,
            Detokenizer(model.tokenizer.backend_tokenizer, prompt_ids, True),
            self._hear,
            leader.sequence if leader else None,
        )

    def _hear(self, event: Delta | EngineError) -> None:
        self._events.put(event)
        self._on_delta()

    def next(self) -> Delta:
        event = self._events.get(timeout=PATIENCE_S)
        if isinstance(event, EngineError):
            raise event
        return event

    def whole(self) -> Delta:
        deltas = [self.next()]
        while deltas[-1].finish_reason is None:
            deltas.append(self.next())
        return joined(deltas)

    def heard(self) -> int:
        return self._events.qsize()


def run(scheduler: Scheduler, *replies: Reply) -> list[Delta]:
    scheduler.submit([reply.sequence for reply in replies])
    return [reply.whole() for reply in replies]


def prompt(seed: int, length: int) -> list[int]:
    return [(seed * 37 + place * 11) % 250 + 3 for place in range(length)]
