"""Text completions: prompts as text or ids in, choices and chunks in vLLM's shapes out."""

import time
from collections.abc import AsyncIterator
from collections.abc import Sequence as Items
from dataclasses import dataclass

from afterturn_engine import admission, constraint
from afterturn_engine.engine import LOWEST_LOGPROB, Engine, collect, request_id
from afterturn_engine.errors import InvalidRequest, Malformed
from afterturn_engine.generation import Generation
from afterturn_engine.requests import CompletionRequest
from afterturn_engine.responses import (
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
    CompletionResponse,
    Usage,
)
from afterturn_engine.sequence import Delta, Scores


@dataclass(frozen=True)
class Prompt:
    ids: list[int]
    text: str


@dataclass(frozen=True)
class Completion:
    """An accepted request whose generation has been queued; choice i answers prompt i // choices."""

    engine: Engine
    asked: CompletionRequest
    id: str
    model_name: str
    prompts: list[Prompt]
    choices: int
    generation: Generation

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt.ids) for prompt in self.prompts)

    def shown_text(self, number: int, delta: Delta, first: bool) -> str:
        """The delta's text, behind the prompt's where that is echoed (as in vLLM not beside ids)."""
        if not (self.asked.echo and first):
            return delta.text
        prompt = "" if self.asked.return_token_ids else self.prompts[number // self.choices].text
        return prompt if self.asked.max_tokens == 0 else prompt + delta.text

    def logprobs(
        self, number: int, delta: Delta, first: bool, before: Items[int], offset: int
    ) -> CompletionLogprobs | None:
        if self.asked.logprobs is None:
            return None
        positions: list[tuple[int, Scores | None]] = []
        if self.asked.echo and first:
            prompt = self.prompts[number // self.choices]
            positions += zip(prompt.ids, delta.prompt_scores or (), strict=True)
        if self.asked.max_tokens != 0:
            positions += zip(delta.token_ids, delta.scores, strict=True)
        return self._listing(positions, before, offset, self.asked.logprobs)

    def _listing(
        self, positions: Items[tuple[int, Scores | None]], before: Items[int], offset: int, top: int
    ) -> CompletionLogprobs:
        listing = CompletionLogprobs(text_offset=[], token_logprobs=[], tokens=[], top_logprobs=[])
        context = list(before)
        for token_id, scores in positions:
            token = self.engine.token_text(token_id, context[-4:])
            listing.text_offset.append(offset)
            listing.tokens.append(token)
            if scores is None:
                listing.token_logprobs.append(None)
                listing.top_logprobs.append(None)
            else:
                listing.token_logprobs.append(max(scores[0].logprob, LOWEST_LOGPROB))
                listing.top_logprobs.append(
                    {
                        self.engine.token_text(s.token_id, context[-4:]): max(s.logprob, LOWEST_LOGPROB)
                        for s in scores[: top + 1]
                    }
                )
            offset += len(token)
            context.append(token_id)
        return listing


async def accept(engine: Engine, asked: CompletionRequest) -> Completion:
    """Check, tokenise and queue. Raises InvalidRequest, NotFound or QueueFull before anything is sent."""
    name, adapter = engine.resolve(asked.model)
    prompts = _prompts(engine, asked)
    limit = asked.max_tokens
    if asked.echo and limit == 0:
        limit = 1  # one token is drawn and not shown, as in vLLM
    prompt_logprobs = asked.prompt_logprobs
    if prompt_logprobs is None and asked.echo:
        prompt_logprobs = asked.logprobs
    n = admission.choices(asked)
    grammar = await engine.compiled(constraint.of_completion(asked))
    generation = Generation(engine.scheduler)
    for prompt in prompts:
        room = admission.room_for_reply(len(prompt.ids), limit, engine.model.max_length)
        sampling = admission.sampling(asked, engine.model, room, asked.logprobs, prompt_logprobs, grammar)
        generation.add(engine.model, prompt.ids, sampling, adapter, n)
    generation.start()
    return Completion(engine, asked, request_id("cmpl", asked.request_id), name, prompts, n, generation)


async def answer(completion: Completion) -> CompletionResponse:
    """The whole answer at once."""
    replies = await collect(completion.generation, completion.choices * len(completion.prompts))
    return CompletionResponse(
        id=completion.id,
        model=completion.model_name,
        choices=[_choice(completion, number, reply) for number, reply in enumerate(replies)],
        usage=Usage.of(completion.prompt_tokens, sum(len(reply.token_ids) for reply in replies)),
    )


def _choice(completion: Completion, number: int, reply: Delta) -> CompletionChoice:
    with_ids = completion.asked.return_token_ids
    prompt = completion.prompts[number // completion.choices]
    return CompletionChoice(
        index=number,
        text=completion.shown_text(number, reply, first=True),
        logprobs=completion.logprobs(number, reply, first=True, before=(), offset=0),
        finish_reason=reply.finish_reason or "stop",
        stop_reason=reply.stop_reason,
        token_ids=list(reply.token_ids) if with_ids else None,
        prompt_logprobs=completion.engine.prompt_logprobs(prompt.ids, reply.prompt_scores),
        prompt_token_ids=prompt.ids if with_ids else None,
    )


async def stream(completion: Completion) -> AsyncIterator[CompletionChunk]:
    """A chunk a token, the usage last if asked for."""
    options = completion.asked.stream_options
    usage = options is not None and bool(options.include_usage)
    continuous = usage and options is not None and bool(options.continuous_usage_stats)
    replies = completion.choices * len(completion.prompts)
    sampled: list[list[int]] = [[] for _ in range(replies)]
    offsets = [0] * replies
    created = int(time.time())

    def chunk(choices: list[CompletionChunkChoice], spent: Usage | None) -> CompletionChunk:
        made = CompletionChunk(
            id=completion.id,
            object="text_completion",
            created=created,
            model=completion.model_name,
            choices=choices,
        )
        if spent is not None:
            made.usage = spent
        return made

    async for number, delta in completion.generation:
        first = not sampled[number]
        prompt = completion.prompts[number // completion.choices]
        logprobs = completion.logprobs(number, delta, first, sampled[number], offsets[number])
        if logprobs is not None and logprobs.tokens:
            offsets[number] = logprobs.text_offset[-1] + len(logprobs.tokens[-1])
        sampled[number] += delta.token_ids
        with_ids = bool(completion.asked.return_token_ids)
        choice = CompletionChunkChoice(
            index=number,
            text=completion.shown_text(number, delta, first),
            logprobs=logprobs,
            finish_reason=delta.finish_reason,
            stop_reason=delta.stop_reason,
            prompt_token_ids=prompt.ids if first and (with_ids or completion.asked.echo) else None,
            token_ids=list(delta.token_ids) if with_ids else None,
        )
        yield chunk([choice], Usage.of(len(prompt.ids), len(sampled[number])) if continuous else None)
    if usage:
        yield chunk([], Usage.of(completion.prompt_tokens, sum(map(len, sampled))))


def _prompts(engine: Engine, asked: CompletionRequest) -> list[Prompt]:
    given = asked.prompt
    if given is None or given == "" or given == []:
        raise Malformed("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    items: list[str | list[int]] = []
    if isinstance(given, str):
        items = [given]
    else:
        ids = [item for item in given if isinstance(item, int)]
        items = [ids] if ids else [item for item in given if not isinstance(item, int)]
    return [_prompt(engine, item, asked.add_special_tokens) for item in items]


def _prompt(engine: Engine, item: str | list[int], add_special_tokens: bool) -> Prompt:
    if isinstance(item, str):
        ids = engine.template.encode(item, add_special_tokens)
        text = item
    else:
        outside = [token_id for token_id in item if token_id >= engine.model.vocabulary_size]
        if outside:
            raise InvalidRequest(f"Token id {outside[0]} is out of vocabulary")
        ids = item
        text = engine.model.tokenizer.backend_tokenizer.decode(item, skip_special_tokens=False)
    if not ids:
        raise InvalidRequest("The prompt must hold at least one token.", param="prompt")
    return Prompt(ids, text)
