"""A request's replies as they come out of the scheduler's thread, inside the event loop."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Sequence as Items
from dataclasses import replace
from functools import partial

from afterturn_engine.adapters import Adapter
from afterturn_engine.detokenizer import Detokenizer
from afterturn_engine.errors import EngineError
from afterturn_engine.model import Model
from afterturn_engine.scheduler import Scheduler
from afterturn_engine.sequence import Delta, Sampling, Sequence


class Generation:
    """The replies to one or more prompts, `n` to each, numbered prompt by prompt.

    `start` queues them or raises QueueFull; iterating yields (number, delta) until all have ended. Leaving
    the iteration early, by cancellation too, stops what still runs.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[tuple[int, Delta | EngineError]] = asyncio.Queue()
        self._sequences: list[Sequence] = []

    def add(
        self, model: Model, prompt_ids: list[int], sampling: Sampling, adapter: Adapter | None, n: int
    ) -> None:
        leader: Sequence | None = None
        for choice in range(n):
            # Each choice draws from a seed of its own, the request as a whole stays reproducible.
            seed = None if sampling.seed is None else sampling.seed + choice
            number = len(self._sequences)
            sequence = Sequence(
                prompt_ids,
                replace(sampling, seed=seed),
                adapter,
                Detokenizer(model.tokenizer.backend_tokenizer, prompt_ids, sampling.skip_special_tokens),
                partial(self._hear, number),
                leader,
            )
            leader = leader or sequence
            self._sequences.append(sequence)

    def start(self) -> None:
        self._scheduler.submit(self._sequences)

    def cancel(self) -> None:
        self._scheduler.cancel(self._sequences)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Delta]]:
        open_replies = len(self._sequences)
        try:
            while open_replies:
                number, event = await self._arrived.get()
                if isinstance(event, EngineError):
                    raise event
                open_replies -= event.finish_reason is not None
                yield number, event
        finally:
            if open_replies:
                self.cancel()

    def _hear(self, number: int, event: Delta | EngineError) -> None:
        """Called in the scheduler's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, (number, event))


def joined(deltas: Items[Delta]) -> Delta:
    """All of a reply's deltas as one."""
    return Delta(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        scores=tuple(scores for delta in deltas for scores in delta.scores),
        finish_reason=deltas[-1].finish_reason,
        stop_reason=deltas[-1].stop_reason,
        prompt_scores=deltas[0].prompt_scores,
        forced=tuple(forced for delta in deltas for forced in delta.forced),
    )
