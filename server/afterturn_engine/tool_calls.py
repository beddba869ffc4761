"""Tool calls in a reply's text, in the form `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

A call is handed on once its closing tag has been seen and its JSON holds, so that stream and plain answer
agree and what does not parse stays text.
"""

import json
import uuid
from dataclasses import dataclass

from pydantic import JsonValue

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Call:
    """`arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Piece:
    """What a bit of reply text turned out to be: plain text, then finished calls."""

    text: str
    calls: tuple[Call, ...]


class ToolCallText:
    """Splits reply text into plain text and calls, whatever pieces it arrives in.

    White space behind a call is dropped. `at_most_one` ignores further calls.
    """

    def __init__(self, at_most_one: bool = False) -> None:
        self._at_most_one = at_most_one
        self._buffer = ""
        self._called = False
        self._behind_call = False

    @property
    def called(self) -> bool:
        return self._called

    def feed(self, piece: str) -> Piece:
        self._buffer += piece
        text, calls = "", list[Call]()
        while (start := self._buffer.find(OPEN)) >= 0:
            end = self._buffer.find(CLOSE, start)
            if end < 0:
                break
            text += self._spoken(self._buffer[:start])
            markup = self._buffer[start : end + len(CLOSE)]
            self._buffer = self._buffer[end + len(CLOSE) :]
            call = parse_call(markup[len(OPEN) : -len(CLOSE)])
            if call is None:
                text += self._spoken(markup)
            else:
                calls += self._taken(call)
        free = len(self._buffer) - _held(self._buffer)
        text += self._spoken(self._buffer[:free])
        self._buffer = self._buffer[free:]
        return Piece(text, tuple(calls))

    def finish(self, complete: bool) -> Piece:
        """What is left at the end. A reply that ended by itself may have left out the last closing tag."""
        rest, self._buffer = self._buffer, ""
        start = rest.find(OPEN)
        call = parse_call(rest[start + len(OPEN) :]) if complete and start >= 0 else None
        if call is None:
            return Piece(self._spoken(rest), ())
        return Piece(self._spoken(rest[:start]), tuple(self._taken(call)))

    def _taken(self, call: Call) -> list[Call]:
        self._behind_call = True
        if self._called and self._at_most_one:
            return []
        self._called = True
        return [call]

    def _spoken(self, text: str) -> str:
        if self._behind_call:
            text = text.lstrip()
            self._behind_call = not text
        return text


def parse_call(markup: str) -> Call | None:
    """The call in a piece of JSON, or None: then it was text."""
    try:
        content: JsonValue = json.loads(markup)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    name, arguments = content.get("name"), content.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return Call(f"chatcmpl-tool-{uuid.uuid4().hex}", name, json.dumps(arguments, ensure_ascii=False))


def _held(text: str) -> int:
    """How much of the end may still become a call: from an open tag on, or a beginning of one."""
    start = text.find(OPEN)
    if start >= 0:
        return len(text) - start
    return next((n for n in range(min(len(OPEN) - 1, len(text)), 0, -1) if OPEN.startswith(text[-n:])), 0)
