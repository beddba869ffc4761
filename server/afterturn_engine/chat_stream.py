"""A chat's reply as chunks in vLLM's shapes, while it is being made."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from afterturn_engine.chat import Chat
from afterturn_engine.reply_text import ReplyText
from afterturn_engine.responses import (
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    ChatLogprobs,
    FunctionDelta,
    ToolCallDelta,
    Usage,
)
from afterturn_engine.sequence import Delta


async def stream(chat: Chat) -> AsyncIterator[ChatChunk]:
    """Chunks as tokens come: a role chunk a choice, then every token once, the usage last if asked for."""
    options = chat.asked.stream_options
    usage = options is not None and bool(options.include_usage)
    continuous = usage and options is not None and bool(options.continuous_usage_stats)
    readers = [chat.reader() for _ in range(chat.choices)]
    calls = [0] * chat.choices
    sampled: list[list[int]] = [[] for _ in range(chat.choices)]
    chunks = _Chunks(chat, int(time.time()))
    begun = False
    async for index, delta in chat.generation:
        if not begun:
            begun = True
            for choice in range(chat.choices):
                yield chunks.role(choice, Usage.of(len(chat.prompt_ids), 0) if continuous else None)
        deltas = _deltas(delta, readers[index], calls[index], chat.asked.include_reasoning)
        calls[index] += sum(map(_new_calls, deltas))
        logprobs = chat.logprobs(delta, sampled[index])
        sampled[index] += delta.token_ids
        silent = not deltas and logprobs is None and not chat.asked.return_token_ids
        if silent and delta.finish_reason is None:
            continue
        so_far = Usage.of(len(chat.prompt_ids), len(sampled[index])) if continuous else None
        for part in deltas[:-1]:
            yield chunks.part(index, part, so_far)
        last = deltas[-1] if deltas else ChatDelta()
        yield chunks.token(index, last, delta, chat.finish_reason(delta, readers[index]), logprobs, so_far)
    if usage:
        yield chunks.usage(Usage.of(len(chat.prompt_ids), sum(map(len, sampled))))


def _deltas(delta: Delta, reader: ReplyText, called: int, with_reasoning: bool) -> list[ChatDelta]:
    """Message deltas of one engine delta: thought, words, then for each call its name and its arguments."""
    if not reader.parses:
        return [ChatDelta(content=delta.text)]
    pieces = [reader.feed(delta.text)]
    if delta.finish_reason is not None:
        pieces.append(reader.finish(delta.finish_reason == "stop"))
    deltas: list[ChatDelta] = []
    for piece in pieces:
        if piece.reasoning and with_reasoning:
            deltas.append(ChatDelta(reasoning=piece.reasoning))
        if piece.text:
            deltas.append(ChatDelta(content=piece.text))
        for call in piece.calls:
            named = FunctionDelta(name=call.name, arguments="")
            head = ToolCallDelta(index=called, id=call.id, type="function", function=named)
            body = ToolCallDelta(index=called, function=FunctionDelta(arguments=call.arguments))
            deltas += [ChatDelta(tool_calls=[head]), ChatDelta(tool_calls=[body])]
            called += 1
    return deltas


def _new_calls(delta: ChatDelta) -> int:
    return sum(call.id is not None for call in delta.tool_calls or ())


@dataclass(frozen=True)
class _Chunks:
    """Chunks of one stream; what is passed on as None is left out or null as vLLM does."""

    chat: Chat
    created: int

    def role(self, index: int, usage: Usage | None) -> ChatChunk:
        delta = ChatDelta(role=self.chat.role, content="")
        chunk = self._chunk(
            [ChatChunkChoice(index=index, delta=delta, logprobs=None, finish_reason=None)], usage
        )
        chunk.prompt_token_ids = self.chat.prompt_ids if self.chat.asked.return_token_ids else None
        chunk.prompt_text = self.chat.prompt if self.chat.asked.return_prompt_text else None
        return chunk

    def part(self, index: int, delta: ChatDelta, usage: Usage | None) -> ChatChunk:
        """A further piece of what one token brought; the token itself rides with the last piece."""
        ids: list[int] | None = [] if self.chat.asked.return_token_ids else None
        choice = ChatChunkChoice(index=index, delta=delta, logprobs=None, finish_reason=None, token_ids=ids)
        return self._chunk([choice], usage)

    def token(
        self,
        index: int,
        message: ChatDelta,
        delta: Delta,
        finish_reason: str | None,
        logprobs: ChatLogprobs | None,
        usage: Usage | None,
    ) -> ChatChunk:
        ids = list(delta.token_ids) if self.chat.asked.return_token_ids else None
        choice = ChatChunkChoice(
            index=index, delta=message, logprobs=logprobs, finish_reason=finish_reason, token_ids=ids
        )
        forced = self.chat.forced(delta)
        if forced is not None:
            choice.forced_token_mask = forced
        if finish_reason is not None:
            choice.stop_reason = delta.stop_reason
        return self._chunk([choice], usage)

    def usage(self, usage: Usage) -> ChatChunk:
        return self._chunk([], usage)

    def _chunk(self, choices: list[ChatChunkChoice], usage: Usage | None) -> ChatChunk:
        chunk = ChatChunk(
            id=self.chat.id,
            object="chat.completion.chunk",
            created=self.created,
            model=self.chat.model_name,
            choices=choices,
        )
        if usage is not None:
            chunk.usage = usage
        return chunk
