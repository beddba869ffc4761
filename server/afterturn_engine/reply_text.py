"""What a chat reply's text turns out to be: a thought, words, calls."""

from dataclasses import dataclass

from afterturn_engine.reasoning import ReasoningText
from afterturn_engine.tool_calls import Call, ToolCallText


@dataclass(frozen=True)
class Said:
    """A bit of a reply, its parts in the order in which they were said."""

    reasoning: str
    text: str
    calls: tuple[Call, ...]


class ReplyText:
    """Reads a reply in whatever pieces it arrives; without parsers all of it is words."""

    def __init__(self, reasoning: ReasoningText | None, calls: ToolCallText | None) -> None:
        self._reasoning = reasoning
        self._calls = calls

    @property
    def parses(self) -> bool:
        """Whether text may be held back, or turn out to be anything else than words."""
        return self._reasoning is not None or self._calls is not None

    @property
    def called(self) -> bool:
        return self._calls is not None and self._calls.called

    def feed(self, piece: str) -> Said:
        reasoning = ""
        if self._reasoning is not None:
            thought = self._reasoning.feed(piece)
            reasoning, piece = thought.reasoning, thought.text
        return self._read(reasoning, piece)

    def finish(self, complete: bool) -> Said:
        """What is left at the end; `complete`: the reply ended by itself."""
        reasoning = rest = ""
        if self._reasoning is not None:
            thought = self._reasoning.finish()
            reasoning, rest = thought.reasoning, thought.text
        said = self._read(reasoning, rest)
        if self._calls is None:
            return said
        last = self._calls.finish(complete)
        return Said(reasoning, said.text + last.text, said.calls + last.calls)

    def _read(self, reasoning: str, text: str) -> Said:
        if self._calls is None:
            return Said(reasoning, text, ())
        piece = self._calls.feed(text)
        return Said(reasoning, piece.text, piece.calls)
