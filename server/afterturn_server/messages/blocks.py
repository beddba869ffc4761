"""A reply as content blocks, and the events that build them: pure."""

from dataclasses import dataclass, field

from pydantic_core import from_json

from ..answers import Json
from ..reply import Fragment

_KINDS = {"reasoning": "thinking", "text": "text", "call": "tool_use"}


@dataclass
class _Block:
    """One block while it arrives, `told` characters sent; a tool's input is `text` until it is whole."""

    kind: str
    text: str = ""
    id: str = ""
    name: str = ""
    told: int = 0

    def opened(self) -> Json:
        if self.kind == "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        if self.kind == "tool_use":
            return {"type": "tool_use", "id": self.id, "name": self.name, "input": {}}
        return {"type": "text", "text": ""}

    def grown(self, text: str) -> str:
        """Take in more; what of it is to be told. A tool's input that is no object is never told: clients
        parse it as it comes, and `whole` makes it an empty one."""
        self.text += text
        if self.kind == "tool_use" and not self.told and not self.text.lstrip().startswith("{"):
            return ""
        more, self.told = self.text[self.told :], len(self.text)
        return more

    def delta(self, text: str) -> Json:
        if self.kind == "thinking":
            return {"type": "thinking_delta", "thinking": text}
        if self.kind == "tool_use":
            return {"type": "input_json_delta", "partial_json": text}
        return {"type": "text_delta", "text": text}

    def whole(self) -> Json:
        if self.kind == "thinking":
            return {**self.opened(), "thinking": self.text}
        if self.kind == "tool_use":
            return {**self.opened(), "input": _object(self.text)}
        return {**self.opened(), "text": self.text}


@dataclass
class Blocks:
    """The blocks so far. One is open at a time: what is of another kind closes it and opens the next."""

    _blocks: list[_Block] = field(default_factory=list)
    _open: int | None = None
    _calls: dict[int, int] = field(default_factory=dict)

    @property
    def content(self) -> list[Json]:
        """The blocks as the content of a message."""
        return [block.whole() for block in self._blocks]

    @property
    def called(self) -> bool:
        """Whether a tool is called."""
        return bool(self._calls)

    def add(self, fragment: Fragment) -> list[Json]:
        """The events that a fragment leads to."""
        if fragment.kind == "arguments":
            return self._grow(self._calls[fragment.call], fragment.text)
        kind = _KINDS[fragment.kind]
        if kind == "tool_use":
            if fragment.call in self._calls:
                return []  # some engines name a call with each of its parts
            events = self._start(_Block(kind, id=fragment.call_id, name=fragment.text))
            self._calls[fragment.call] = len(self._blocks) - 1
            return events
        events = []
        if self._open is None or self._blocks[self._open].kind != kind:
            events = self._start(_Block(kind))
        return [*events, *self._grow(len(self._blocks) - 1, fragment.text)]

    def close(self) -> list[Json]:
        """The event that ends the open block, if there is one."""
        if self._open is None:
            return []
        index, self._open = self._open, None
        return [{"type": "content_block_stop", "index": index}]

    def _start(self, block: _Block) -> list[Json]:
        events = self.close()
        self._open = len(self._blocks)
        self._blocks.append(block)
        return [
            *events,
            {"type": "content_block_start", "index": self._open, "content_block": block.opened()},
        ]

    def _grow(self, index: int, text: str) -> list[Json]:
        block = self._blocks[index]
        more = block.grown(text)
        return [{"type": "content_block_delta", "index": index, "delta": block.delta(more)}] if more else []


def _object(text: str) -> Json:
    """A tool's input; of one that was cut off, what is there, as Anthropic's own clients read it."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
