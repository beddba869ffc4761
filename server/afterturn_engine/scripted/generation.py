"""What one scripted choice says, token by token; pure functions of reply and request."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from afterturn_engine.scripted.script import Reply, ToolCall
from afterturn_engine.scripted.vocabulary import IM_END, decode_one, encode

Kind = Literal["content", "reasoning", "call", "arguments", "markup", "end"]


@dataclass(frozen=True)
class Token:
    id: int
    text: str
    logprob: float


@dataclass(frozen=True)
class Piece:
    """What one stream chunk carries. `call` is the index of the tool call it belongs to.

    Pieces of kind `call` open a call (`text` is its name), `arguments` continue
    it, `markup` is sampled text that the client never sees, `end` is the
    end-of-turn token.
    """

    kind: Kind
    text: str
    tokens: tuple[Token, ...]
    call: int = 0
    call_id: str = ""


@dataclass(frozen=True)
class Generation:
    """One choice: its pieces in order, and why it ends (`stop_reason`: the stop string that matched)."""

    pieces: tuple[Piece, ...]
    finish_reason: str
    stop_reason: str | None

    @property
    def token_count(self) -> int:
        return sum(len(piece.tokens) for piece in self.pieces)

    def text(self, kind: Kind) -> str:
        return "".join(piece.text for piece in self.pieces if piece.kind == kind)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(name=opened.text, id=opened.call_id, arguments=self._arguments(opened.call))
            for opened in self.pieces
            if opened.kind == "call"
        )

    def _arguments(self, call: int) -> str:
        return "".join(p.text for p in self.pieces if p.kind == "arguments" and p.call == call)


@dataclass(frozen=True)
class Bounds:
    """What the request allows: at most `tokens`, text up to the first of `stops`, calls or none."""

    tokens: int
    stops: tuple[str, ...] = ()
    tools: bool = False
    single_call: bool = False
    forced_call: bool = False


def logprob_of(model: str, position: int, token_id: int) -> float:
    """A made-up log-probability below 0 that depends on model, position and token, and on nothing else."""
    return -0.001 - (zlib.crc32(f"{model}/{position}/{token_id}".encode()) % 2000) / 1000


def scored(model: str, token_ids: tuple[int, ...], start: int) -> tuple[Token, ...]:
    """`token_ids` as tokens of positions `start` onwards."""
    return tuple(
        Token(token_id, decode_one(token_id), logprob_of(model, start + offset, token_id))
        for offset, token_id in enumerate(token_ids)
    )


def generate(reply: Reply, told: str, model: str, bounds: Bounds) -> Generation:
    """The choice that `reply` gives to somebody who said `told`."""
    pieces = _score(model, tuple(_pieces(reply, told, bounds)))
    called = any(piece.kind == "call" for piece in pieces)
    finish, stop_reason = ("tool_calls" if called and not bounds.forced_call else "stop"), None
    pieces, matched = _cut_at_stop(pieces, bounds.stops)
    if matched is not None:
        finish, stop_reason = "stop", matched
    if sum(len(piece.tokens) for piece in pieces) > bounds.tokens:
        pieces, finish, stop_reason = _cut_at_tokens(pieces, bounds.tokens), "length", None
    return Generation(pieces, reply.finish_reason or finish, stop_reason)


def _pieces(reply: Reply, told: str, bounds: Bounds) -> Iterator[Piece]:
    """The pieces of `reply`, tokens not scored yet."""
    thoughts = reply.reasoning_pieces
    if thoughts is None:
        thoughts = _one_token_each(reply.reasoning or "")
    yield from (_unscored("reasoning", text) for text in thoughts)
    content = reply.content
    if content is None and not reply.tool_calls:
        content = told
    texts = reply.pieces if reply.pieces is not None else _one_token_each(content or "")
    yield from (_unscored("content", text) for text in texts)
    calls = reply.tool_calls[:1] if bounds.single_call else reply.tool_calls
    for index, call in enumerate(calls):
        opening = f'<tool_call>\n{{"name": "{call.name}", "arguments": '
        if not bounds.tools:
            # A model that calls where no tool is on offer has merely written text.
            text = f"{opening}{call.argument_text}}}\n</tool_call>"
            yield from (_unscored("content", part) for part in _one_token_each(text))
            continue
        call_id = call.id or f"call_{index}"
        yield replace(_unscored("call", opening), text=call.name, call=index, call_id=call_id)
        for part in call.pieces if call.pieces is not None else _one_token_each(call.arguments):
            yield replace(_unscored("arguments", part), call=index)
        yield _unscored("markup", "}\n</tool_call>")
    yield Piece("end", "", (Token(IM_END, decode_one(IM_END), 0.0),))


def _one_token_each(text: str) -> tuple[str, ...]:
    return tuple(decode_one(token_id) for token_id in encode(text))


def _unscored(kind: Kind, text: str) -> Piece:
    return Piece(kind, text, tuple(Token(token_id, decode_one(token_id), 0.0) for token_id in encode(text)))


def _score(model: str, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    done: list[Piece] = []
    position = 0
    for piece in pieces:
        done.append(replace(piece, tokens=scored(model, tuple(t.id for t in piece.tokens), position)))
        position += len(piece.tokens)
    return tuple(done)


def _cut_at_stop(pieces: tuple[Piece, ...], stops: tuple[str, ...]) -> tuple[tuple[Piece, ...], str | None]:
    """Content up to the stop string that is complete first; the token that completed it is the last one."""
    said = ""
    for index, piece in enumerate(pieces):
        if piece.kind != "content":
            continue
        said += piece.text
        found = [(said.index(stop), stop) for stop in stops if stop in said]
        if found:
            at, stop = min(found)
            return _cut_content(pieces[: index + 1], at), stop
    return pieces, None


def _cut_content(pieces: tuple[Piece, ...], length: int) -> tuple[Piece, ...]:
    """The same tokens with the content text cut to `length` characters."""
    done: list[Piece] = []
    for piece in pieces:
        if piece.kind == "content":
            piece = replace(piece, text=piece.text[:length])
            length -= len(piece.text)
        done.append(piece)
    return tuple(done)


def _cut_at_tokens(pieces: tuple[Piece, ...], count: int) -> tuple[Piece, ...]:
    done: list[Piece] = []
    for piece in pieces:
        if count <= 0:
            break
        if len(piece.tokens) > count and piece.kind in ("content", "reasoning", "arguments"):
            kept = piece.tokens[:count]
            piece = replace(piece, tokens=kept, text="".join(token.text for token in kept))
        elif len(piece.tokens) > count:
            piece = replace(piece, kind="markup", text="", tokens=piece.tokens[:count])
        done.append(piece)
        count -= len(piece.tokens)
    return tuple(done)
