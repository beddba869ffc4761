"""Putting a chat reply together from what the engine sends, whole or in chunks."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from .answers import Json
from .recording import Answered, Choice


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> Json:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass
class _Draft:
    """One choice while it arrives."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    finish_reason: str | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def add(self, choice: Json) -> None:
        delta = choice.get("delta") or {}
        if delta.get("content"):
            self.text.append(delta["content"])
        thought = delta.get("reasoning") or delta.get("reasoning_content")
        if thought:
            self.reasoning.append(thought)
        for part in delta.get("tool_calls") or ():
            call = self.calls.setdefault(part.get("index", 0), _Call())
            function = part.get("function") or {}
            call.id = part.get("id") or call.id
            call.name = function.get("name") or call.name
            call.arguments.append(function.get("arguments") or "")
        self.token_ids += choice.get("token_ids") or ()
        self.logprobs += logprobs_of(choice)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def whole(self, index: int) -> Choice:
        message: Json = {"role": "assistant", "content": "".join(self.text)}
        if self.reasoning:
            message["reasoning"] = "".join(self.reasoning)
        if self.calls:
            message["tool_calls"] = [self.calls[number].whole() for number in sorted(self.calls)]
            message["content"] = message["content"] or None
        return Choice(index, message, self.finish_reason, tuple(self.token_ids), tuple(self.logprobs))


class ChatDraft:
    """A streamed chat reply while it arrives."""

    def __init__(self) -> None:
        self.response_id = ""
        self.prompt_token_ids: tuple[int, ...] = ()
        self._drafts: dict[int, _Draft] = {}

    def add(self, chunk: Json) -> None:
        """Take in one chunk as the engine sent it."""
        self.response_id = chunk.get("id") or self.response_id
        ids = chunk.get("prompt_token_ids")
        if ids:
            self.prompt_token_ids = tuple(ids)
        for choice in chunk.get("choices") or ():
            self._drafts.setdefault(choice.get("index", 0), _Draft()).add(choice)

    def answered(self, interrupted: str | None = None) -> Answered:
        """What has arrived; at least one choice, an empty one if the engine had not begun."""
        drafts = self._drafts or {0: _Draft()}
        choices = tuple(drafts[index].whole(index) for index in sorted(drafts))
        if interrupted is not None:
            choices = tuple(
                Choice(c.index, c.message, c.finish_reason or interrupted, c.token_ids, c.logprobs)
                for c in choices
            )
        return Answered(self.response_id, self.prompt_token_ids, choices, interrupted)


def read_reply(body: Json) -> Answered:
    """A chat reply that came whole."""
    choices = []
    for choice in body.get("choices") or ():
        message = {name: value for name, value in choice["message"].items() if value is not None}
        message.setdefault("content", None)
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
        ids = tuple(choice.get("token_ids") or ())
        index, reason = choice.get("index", 0), choice.get("finish_reason")
        choices.append(Choice(index, message, reason, ids, tuple(logprobs_of(choice))))
    return Answered(body.get("id") or "", tuple(body.get("prompt_token_ids") or ()), tuple(choices))


def logprobs_of(choice: Json) -> list[float]:
    """Natural-log probabilities of a choice's tokens; one that the engine left out is NaN."""
    content = (choice.get("logprobs") or {}).get("content") or ()
    return [math.nan if entry["logprob"] is None else entry["logprob"] for entry in content]


@dataclass(frozen=True)
class Fragment:
    """A piece of a reply: thought, said, or part of tool call number `call`, which a `call` fragment opens
    (`text` is then the tool's name)."""

    kind: Literal["reasoning", "text", "call", "arguments"]
    text: str
    call: int = 0
    call_id: str = ""
    logprobs: tuple[Json, ...] = ()


def fragments_in(choice: Json) -> Iterator[Fragment]:
    """The pieces that one choice of a chunk holds, in the order in which a reply has them."""
    delta = choice.get("delta") or {}
    thought = delta.get("reasoning") or delta.get("reasoning_content")
    if thought:
        yield Fragment("reasoning", thought)
    if delta.get("content"):
        scores = (choice.get("logprobs") or {}).get("content") or ()
        yield Fragment("text", delta["content"], logprobs=tuple(scores))
    for place, part in enumerate(delta.get("tool_calls") or ()):
        number = part.get("index", place)
        function = part.get("function") or {}
        if function.get("name"):
            yield Fragment("call", function["name"], number, part.get("id") or "")
        if function.get("arguments"):
            yield Fragment("arguments", function["arguments"], number)


def as_chunk(reply: Json) -> Json:
    """A reply that came whole as the one chunk of a stream."""
    choices = [{**choice, "delta": choice["message"]} for choice in reply["choices"]]
    return {**reply, "choices": choices}


@dataclass
class Spent:
    """Tokens of an exchange: the engine's own count where it gives one, else what it sent."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0

    def add(self, chunk: Json) -> None:
        """Take in one chunk."""
        self.prompt = len(chunk.get("prompt_token_ids") or ()) or self.prompt
        for choice in chunk.get("choices") or ():
            self.completion += len(choice.get("token_ids") or ())
        usage = chunk.get("usage")
        if usage:
            self.prompt, self.completion = usage["prompt_tokens"], usage["completion_tokens"]
            self.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


@dataclass(frozen=True)
class Shown:
    """What the client asked to see, and what its reply is to say about itself."""

    model: str
    session_id: str | None
    logprobs: bool
    token_ids: bool
    usage: bool

    def strip(self, reply: Json) -> None:
        """Make an engine's body or chunk the client's, in place."""
        reply["model"] = self.model
        if self.session_id is not None:
            reply["session_id"] = self.session_id
        if not self.token_ids:
            reply.pop("prompt_token_ids", None)
            for choice in reply.get("choices") or ():
                choice.pop("token_ids", None)
                choice.pop("forced_token_mask", None)
        if not self.logprobs:
            for choice in reply.get("choices") or ():
                choice["logprobs"] = None

    def strip_chunk(self, chunk: Json) -> None:
        """Like `strip`, for a chunk: a usage key only where it was asked for, then in every chunk."""
        self.strip(chunk)
        if self.usage:
            chunk.setdefault("usage", None)
