"""The engine's chat reply in Anthropic's words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from afterturn_core.errors import AfterturnError

from ..answers import Json, event
from ..protocol import Wording
from ..recording import Answered, Asked
from ..reply import ChatDraft, Spent, as_chunk, fragments_in, read_reply
from .blocks import Blocks
from .refusal import error_body

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class MessagesWording(Wording):
    """One message, whole or as typed events."""

    def __init__(self, asked: Asked, message_id: str, model: str) -> None:
        self._asked = asked
        self._id = message_id
        self._model = model
        self._draft = ChatDraft()
        self._answered: Answered | None = None
        self._blocks = Blocks()
        self._spent = Spent()
        self._begun = False
        self._finish_reason: str | None = None
        self._stop_sequence: str | None = None

    def chunk(self, chunk: Json) -> bytes:
        """`message_start` with the first chunk, which knows how long the prompt is; then blocks."""
        self._draft.add(chunk)
        events = self._take(chunk)
        if not self._begun:
            self._begun = True
            events.insert(0, {"type": "message_start", "message": self._message([], None, None)})
        return _said(events)

    def keep_alive(self) -> bytes:
        """A `ping`, which clients of this protocol expect."""
        return _said([{"type": "ping"}])

    def done(self) -> bytes:
        """The end of the last block, why the message ends, and its end."""
        return _said(
            [
                *self._blocks.close(),
                {
                    "type": "message_delta",
                    "delta": {
                        "stop_reason": self._stop_reason(),
                        "stop_sequence": self._stop_sequence,
                        "stop_details": None,
                    },
                    "usage": self._usage(),
                },
                {"type": "message_stop"},
            ]
        )

    def failed(self, error: AfterturnError) -> bytes:
        """An `error` event."""
        return _said([error_body(error)])

    def whole(self, reply: Json) -> Json:
        """The message."""
        self._answered = read_reply(reply)
        self._take(as_chunk(reply))
        return self._message(self._blocks.content, self._stop_reason(), self._stop_sequence)

    def records(self, interrupted: str | None = None) -> Sequence[tuple[Asked, Answered]]:
        """One record, under the id that the client was told."""
        answered = self._answered or self._draft.answered(interrupted)
        return [(self._asked, replace(answered, response_id=self._id))]

    def _take(self, chunk: Json) -> list[Json]:
        self._spent.add(chunk)
        events: list[Json] = []
        for choice in chunk.get("choices") or ():
            for fragment in fragments_in(choice):
                events += self._blocks.add(fragment)
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            if isinstance(choice.get("stop_reason"), str):
                self._stop_sequence = choice["stop_reason"]
        return events

    def _stop_reason(self) -> str:
        if self._blocks.called and self._finish_reason == "stop":
            return "tool_use"  # a call that was demanded by name ends so
        if self._stop_sequence is not None:
            return "stop_sequence"
        return STOP_REASONS.get(self._finish_reason or "stop", "end_turn")

    def _message(self, content: list[Json], stop_reason: str | None, stop_sequence: str | None) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "stop_details": None,
            "usage": self._usage(),
        }

    def _usage(self) -> Json:
        return {
            "input_tokens": self._spent.prompt - self._spent.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self._spent.cached,
            "output_tokens": self._spent.completion,
        }


def _said(events: Iterable[Json]) -> bytes:
    return b"".join(event(body, body["type"]) for body in events)
