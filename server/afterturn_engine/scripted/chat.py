"""/v1/chat/completions of the scripted engine."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from afterturn_engine.scripted import dialect
from afterturn_engine.scripted.bounds import check_messages, check_sampling, check_tool_choice
from afterturn_engine.scripted.engine import CutError, ScriptedEngine
from afterturn_engine.scripted.exchange import CutBody, EventStream, allowance, read, while_connected
from afterturn_engine.scripted.generation import Bounds, Generation, generate
from afterturn_engine.scripted.prompt import chat_prompt, rendered
from afterturn_engine.scripted.script import Reply
from afterturn_engine.scripted.wire import ChatRequest


@dataclass(frozen=True)
class _Chat:
    reply: Reply
    answer: dialect.Answer
    generations: tuple[Generation, ...]
    usage: bool


async def answer_chat(engine: ScriptedEngine, request: Request) -> Response:
    """Raises EngineError where vLLM would refuse."""
    asked = await read(engine, request, ChatRequest)
    chat = _plan(engine, asked)
    if asked.stream:
        return EventStream(_events(engine, chat))
    try:
        await while_connected(request, engine.drain(chat.reply, chat.generations))
    except CutError:
        return CutBody()
    return JSONResponse(dialect.chat_body(chat.answer, chat.generations))


def _plan(engine: ScriptedEngine, asked: ChatRequest) -> _Chat:
    model = engine.require_model(asked.model)
    check_sampling(asked, asked.token_limit)
    check_messages(asked)
    check_tool_choice(asked)
    prompt = chat_prompt(asked.messages)
    bounds = Bounds(
        tokens=allowance(engine.script, len(prompt), asked.token_limit),
        stops=asked.stops,
        tools=bool(asked.tools) and asked.tool_choice != "none",
        single_call=asked.parallel_tool_calls is False,
        forced_call=isinstance(asked.tool_choice, dict),
    )
    told = asked.messages[-1].text
    reply = engine.choose(told, model)
    answer = dialect.Answer(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        model=model,
        prompt_token_ids=prompt,
        token_ids=bool(asked.return_token_ids),
        logprobs=bool(asked.logprobs),
        top=asked.top_logprobs or 0,
        prompt_text=rendered(prompt) if asked.return_prompt_text else None,
        reasoning=asked.include_reasoning,
    )
    generations = tuple(generate(reply.choice(index), told, model, bounds) for index in range(asked.n))
    return _Chat(reply, answer, generations, asked.wants_usage)


async def _events(engine: ScriptedEngine, chat: _Chat) -> AsyncGenerator[str, None]:
    generations = chat.generations
    seen = [0] * len(generations)
    async with aclosing(engine.play(chat.reply, generations)) as pieces:
        async for choice, piece in pieces:
            if not any(seen):
                for index in range(len(generations)):
                    yield dialect.event(dialect.chat_opening(chat.answer, index))
            seen[choice] += 1
            ending = generations[choice] if seen[choice] == len(generations[choice].pieces) else None
            yield dialect.event(dialect.chat_chunk(chat.answer, choice, piece, ending))
    if chat.usage:
        tokens = sum(generation.token_count for generation in generations)
        prompt_tokens = len(chat.answer.prompt_token_ids)
        yield dialect.event(dialect.usage_chunk(chat.answer, "chat.completion.chunk", prompt_tokens, tokens))
