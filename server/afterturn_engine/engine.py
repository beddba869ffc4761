"""The parts of a running engine, and what every request needs of them."""

import asyncio
import uuid
from collections.abc import Sequence as Items
from dataclasses import dataclass

from afterturn_engine.adapters import Adapter, Adapters
from afterturn_engine.constraint import Constraint
from afterturn_engine.detokenizer import token_text
from afterturn_engine.errors import NotFound
from afterturn_engine.generation import Generation, joined
from afterturn_engine.grammar import Grammar, Grammars
from afterturn_engine.model import Model
from afterturn_engine.responses import PromptLogprobs, PromptScore
from afterturn_engine.scheduler import Scheduler
from afterturn_engine.sequence import Delta, Scores
from afterturn_engine.template import Template

# JSON knows no infinity; vLLM reports this instead.
LOWEST_LOGPROB = -9999.0


@dataclass(frozen=True)
class Engine:
    base_name: str
    model: Model
    template: Template
    adapters: Adapters
    scheduler: Scheduler
    grammars: Grammars

    def resolve(self, name: str | None) -> tuple[str, Adapter | None]:
        """The served name and adapter that a request's `model` means. Raises NotFound."""
        if name is None or name in ("", self.base_name):
            return self.base_name, None
        adapter = self.adapters.get(name)
        if adapter is None:
            raise NotFound(
                f"The model `{name}` does not exist. Valid aliases: {self.base_name}.", param="model"
            )
        return name, adapter

    async def compiled(self, constraint: Constraint | None) -> Grammar | None:
        """The grammar of a reply, compiled beside the event loop. Raises InvalidRequest."""
        if constraint is None:
            return None
        return await asyncio.to_thread(self.grammars.compile, constraint.grammar, constraint.param)

    def token_text(self, token_id: int, before: Items[int]) -> str:
        return token_text(self.model.tokenizer.backend_tokenizer, token_id, before)

    def prompt_logprobs(
        self, prompt_ids: Items[int], scores: Items[Scores | None] | None
    ) -> PromptLogprobs | None:
        if scores is None:
            return None
        listing: PromptLogprobs = []
        for place, position in enumerate(scores):
            before = prompt_ids[max(place - 4, 0) : place]
            listing.append(
                None
                if position is None
                else {
                    str(score.token_id): PromptScore(
                        logprob=max(score.logprob, LOWEST_LOGPROB),
                        rank=score.rank,
                        decoded_token=self.token_text(score.token_id, before),
                    )
                    for score in position
                }
            )
        return listing


async def collect(generation: Generation, replies: int) -> list[Delta]:
    """Wait for all replies of a started generation."""
    deltas: list[list[Delta]] = [[] for _ in range(replies)]
    async for number, delta in generation:
        deltas[number].append(delta)
    return [joined(parts) for parts in deltas]


def request_id(prefix: str, asked: str | None) -> str:
    return f"{prefix}-{asked or uuid.uuid4().hex}"
