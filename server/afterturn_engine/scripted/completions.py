"""/v1/completions of the scripted engine."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from afterturn_engine.scripted import dialect
from afterturn_engine.scripted.bounds import check_sampling
from afterturn_engine.scripted.engine import CutError, ScriptedEngine
from afterturn_engine.scripted.errors import BadRequest
from afterturn_engine.scripted.exchange import CutBody, EventStream, allowance, read, while_connected
from afterturn_engine.scripted.generation import Bounds, Generation, generate, scored
from afterturn_engine.scripted.prompt import text_prompts
from afterturn_engine.scripted.script import Reply
from afterturn_engine.scripted.vocabulary import decode
from afterturn_engine.scripted.wire import CompletionRequest, Json


@dataclass(frozen=True)
class _Choice:
    answer: dialect.Answer
    generation: Generation


@dataclass(frozen=True)
class _Completion:
    """`reply` sets the pace of all choices: the rule that fits the first prompt."""

    reply: Reply
    choices: tuple[_Choice, ...]
    prompt_tokens: int

    @property
    def generations(self) -> tuple[Generation, ...]:
        return tuple(choice.generation for choice in self.choices)

    @property
    def tokens(self) -> int:
        return sum(generation.token_count for generation in self.generations)


async def answer_completion(engine: ScriptedEngine, request: Request) -> Response:
    """Raises EngineError where vLLM would refuse."""
    asked = await read(engine, request, CompletionRequest)
    completion = _plan(engine, asked)
    if asked.stream:
        return EventStream(_events(engine, completion, asked.wants_usage))
    try:
        await while_connected(request, engine.drain(completion.reply, completion.generations))
    except CutError:
        return CutBody()
    return JSONResponse(_body(completion, asked))


def _plan(engine: ScriptedEngine, asked: CompletionRequest) -> _Completion:
    model = engine.require_model(asked.model)
    check_sampling(asked, asked.token_limit)
    prompts = text_prompts(asked.prompt)
    if not prompts or not all(prompts):
        raise BadRequest("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    answer_id = f"cmpl-{uuid.uuid4().hex}"
    choices: list[_Choice] = []
    replies: list[Reply] = []
    for prompt in prompts:
        bounds = Bounds(allowance(engine.script, len(prompt), asked.token_limit), asked.stops)
        try:
            told = decode(prompt)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        replies.append(engine.choose(told, model))
        answer = dialect.Answer(
            id=answer_id,
            model=model,
            prompt_token_ids=prompt,
            token_ids=bool(asked.return_token_ids),
            logprobs=asked.logprobs is not None,
            top=asked.logprobs or 0,
        )
        choices += [
            _Choice(answer, generate(replies[-1].choice(index), told, model, bounds))
            for index in range(asked.n)
        ]
    return _Completion(replies[0], tuple(choices), sum(map(len, prompts)))


def _body(completion: _Completion, asked: CompletionRequest) -> Json:
    first = completion.choices[0].answer
    choices: list[Json] = []
    for index, choice in enumerate(completion.choices):
        prompt = scored(first.model, choice.answer.prompt_token_ids, 0)
        choices.append(
            dialect.completion_choice(
                choice.answer,
                index,
                choice.generation,
                prompt if asked.echo else (),
                dialect.prompt_logprobs(prompt) if asked.prompt_logprobs is not None else None,
            )
        )
    return {
        **first.envelope("text_completion"),
        "choices": list(choices),
        "service_tier": None,
        "system_fingerprint": None,
        "usage": dialect.usage(completion.prompt_tokens, completion.tokens),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


async def _events(
    engine: ScriptedEngine, completion: _Completion, with_usage: bool
) -> AsyncGenerator[str, None]:
    seen = [0] * len(completion.choices)
    async with aclosing(engine.play(completion.reply, completion.generations)) as pieces:
        async for index, piece in pieces:
            choice = completion.choices[index]
            seen[index] += 1
            ending = choice.generation if seen[index] == len(choice.generation.pieces) else None
            chunk = dialect.completion_chunk(choice.answer, index, piece, seen[index] == 1, ending)
            yield dialect.event(chunk)
    if with_usage:
        first = completion.choices[0].answer
        chunk = dialect.usage_chunk(first, "text_completion", completion.prompt_tokens, completion.tokens)
        yield dialect.event(chunk)
