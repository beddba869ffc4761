"""A reply's thoughts apart from its words, in the form `<think>…</think>` at its beginning."""

from dataclasses import dataclass

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"


@dataclass(frozen=True)
class Thought:
    """What a bit of reply text turned out to be: thinking, then words."""

    reasoning: str
    text: str


class ReasoningText:
    """Splits reply text into thought and words, whatever pieces it arrives in.

    Only a reply that begins with a thought has one. White space around the tags belongs to neither.
    """

    def __init__(self, thinking: bool = False) -> None:
        """`thinking`: the prompt ends inside a thought that the reply goes on with."""
        self._state = "inside" if thinking else "before"
        self._buffer = ""
        self._at_border = thinking

    def feed(self, piece: str) -> Thought:
        self._buffer += piece
        if self._state == "before":
            self._begin()
        reasoning = self._inside() if self._state == "inside" else ""
        return Thought(reasoning, self._words())

    def finish(self) -> Thought:
        """What is left at the end: of a thought that was not closed, or of a beginning that was none."""
        rest, self._buffer = self._buffer, ""
        if self._state == "inside":
            return Thought(rest.rstrip(), "")
        return Thought("", rest)

    def _begin(self) -> None:
        begun = self._buffer.lstrip()
        if begun.startswith(OPEN_THOUGHT):
            self._state, self._at_border = "inside", True
            self._buffer = begun[len(OPEN_THOUGHT) :]
        elif not OPEN_THOUGHT.startswith(begun):
            self._state = "behind"

    def _inside(self) -> str:
        if self._at_border:
            self._buffer = self._buffer.lstrip()
            self._at_border = not self._buffer
        end = self._buffer.find(CLOSE_THOUGHT)
        if end >= 0:
            thought, self._buffer = self._buffer[:end].rstrip(), self._buffer[end + len(CLOSE_THOUGHT) :]
            self._state, self._at_border = "behind", True
            return thought
        free = len(self._buffer) - _held(self._buffer)
        thought, self._buffer = self._buffer[:free], self._buffer[free:]
        return thought

    def _words(self) -> str:
        if self._state != "behind":
            return ""
        text, self._buffer = self._buffer, ""
        if self._at_border:
            text = text.lstrip()
            self._at_border = not text
        return text


def _held(text: str) -> int:
    """How much of the end may still turn out to be the closing tag, or white space before it."""
    for length in range(min(len(CLOSE_THOUGHT) - 1, len(text)), 0, -1):
        if CLOSE_THOUGHT.startswith(text[-length:]):
            break
    else:
        length = 0
    body = text[: len(text) - length]
    return length + len(body) - len(body.rstrip())
