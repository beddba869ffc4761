"""A reply as output items, and the events that build them: pure."""

from dataclasses import dataclass, field

from ..answers import Json
from ..reply import Fragment
from .translation import sealed

_KINDS = {"reasoning": "reasoning", "text": "message", "call": "function_call"}
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


@dataclass
class _Item:
    """One item while it arrives."""

    kind: str
    id: str
    call_id: str = ""
    name: str = ""
    text: str = ""
    logprobs: list[Json] = field(default_factory=list)

    def part(self, text: str, logprobs: list[Json]) -> Json:
        """The one part of a message's or a thought's content."""
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def shown(self, status: str, *, whole: bool, seal: bool) -> Json:
        """The item as it is now, or as it was when it began."""
        text = self.text if whole else ""
        if self.kind == "function_call":
            return {
                "type": self.kind, "id": self.id, "call_id": self.call_id, "name": self.name,
                "arguments": text, "status": status,
            }  # fmt: skip
        content = [self.part(text, self.logprobs)] if whole else []
        if self.kind == "message":
            return {
                "type": self.kind, "id": self.id, "role": "assistant", "status": status, "content": content,
            }  # fmt: skip
        hidden = sealed(text) if seal and whole else None
        return {
            "type": self.kind, "id": self.id, "summary": [], "content": content,
            "encrypted_content": hidden, "status": status,
        }  # fmt: skip


@dataclass
class Output:
    """The items so far. One is open at a time: what is of another kind closes it and opens the next.

    Items are named after their response and their place, so that a stored reply gives the same names again.
    """

    response_id: str
    seal: bool = False
    logprobs: bool = False
    _items: list[_Item] = field(default_factory=list)
    _open: int | None = None
    _calls: dict[int, int] = field(default_factory=dict)

    def items(self, status: str) -> list[Json]:
        """Every item; the last one has this status, those before it are complete."""
        last = len(self._items) - 1
        return [
            item.shown(status if place == last else "completed", whole=True, seal=self.seal)
            for place, item in enumerate(self._items)
        ]

    def add(self, fragment: Fragment) -> list[Json]:
        """The events that a fragment leads to."""
        if fragment.kind == "arguments":
            return [self._grow(self._calls[fragment.call], fragment)]
        kind = _KINDS[fragment.kind]
        if kind == "function_call":
            if fragment.call in self._calls:
                return []  # some engines name a call with each of its parts
            self._calls[fragment.call] = len(self._items)
            return self._start(kind, fragment.call_id, fragment.text)
        events = []
        if self._open is None or self._items[self._open].kind != kind:
            events = self._start(kind)
        return [*events, self._grow(len(self._items) - 1, fragment)]

    def close(self, status: str = "completed") -> list[Json]:
        """The events that end the open item, if there is one."""
        if self._open is None:
            return []
        index, self._open = self._open, None
        item = self._items[index]
        place = {"item_id": item.id, "output_index": index}
        done = {
            "type": "response.output_item.done",
            "output_index": index,
            "item": item.shown(status, whole=True, seal=self.seal),
        }
        if item.kind == "function_call":
            name = "response.function_call_arguments.done"
            return [{"type": name, **place, "name": item.name, "arguments": item.text}, done]
        text: Json = {
            "type": f"response.{_text_name(item)}.done", **place, "content_index": 0, "text": item.text,
        }  # fmt: skip
        if item.kind == "message":
            text["logprobs"] = item.logprobs
        part = item.part(item.text, item.logprobs)
        return [text, {"type": "response.content_part.done", **place, "content_index": 0, "part": part}, done]

    def _start(self, kind: str, call_id: str = "", name: str = "") -> list[Json]:
        events = self.close()
        index = self._open = len(self._items)
        tail = self.response_id.partition("_")[2]
        item = _Item(kind, f"{_PREFIXES[kind]}_{tail}_{index}", call_id, name)
        self._items.append(item)
        shown = item.shown("in_progress", whole=False, seal=self.seal)
        events.append({"type": "response.output_item.added", "output_index": index, "item": shown})
        if kind != "function_call":
            place = {"item_id": item.id, "output_index": index, "content_index": 0}
            events.append({"type": "response.content_part.added", **place, "part": item.part("", [])})
        return events

    def _grow(self, index: int, fragment: Fragment) -> Json:
        item = self._items[index]
        item.text += fragment.text
        place: Json = {"item_id": item.id, "output_index": index}
        if item.kind == "function_call":
            return {"type": "response.function_call_arguments.delta", **place, "delta": fragment.text}
        delta = {
            "type": f"response.{_text_name(item)}.delta", **place, "content_index": 0, "delta": fragment.text,
        }  # fmt: skip
        if item.kind == "message":
            scores = list(fragment.logprobs) if self.logprobs else []
            item.logprobs += scores
            delta["logprobs"] = scores
        return delta


def _text_name(item: _Item) -> str:
    return "reasoning_text" if item.kind == "reasoning" else "output_text"
