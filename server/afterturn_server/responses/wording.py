"""The engine's chat reply in the words of the responses protocol."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from afterturn_core.errors import AfterturnError

from ..answers import Json, event, public_message
from ..protocol import Wording
from ..recording import Answered, Asked
from ..reply import ChatDraft, Spent, as_chunk, fragments_in, read_reply
from .body import STATUSES, Head, usage_of
from .output import Output


class ResponsesWording(Wording):
    """One response, whole or as numbered events."""

    def __init__(self, asked: Asked, head: Head, output: Output) -> None:
        self._asked = asked
        self._head = head
        self._output = output
        self._draft = ChatDraft()
        self._answered: Answered | None = None
        self._spent = Spent()
        self._finish_reason: str | None = None
        self._number = 0

    def opening(self) -> bytes:
        """`response.created` and `response.in_progress`."""
        begun = self._head.body("in_progress", [])
        names = ("response.created", "response.in_progress")
        return self._said({"type": name, "response": begun} for name in names)

    def chunk(self, chunk: Json) -> bytes:
        """Items begun, grown and ended."""
        self._draft.add(chunk)
        return self._said(self._take(chunk))

    def done(self) -> bytes:
        """The end of the last item, then the whole response."""
        response = self._response()
        status = response["status"]
        return self._said([*self._output.close(status), {"type": f"response.{status}", "response": response}])

    def failed(self, error: AfterturnError) -> bytes:
        """An `error` event, and the response as far as it came, failed."""
        message, code = public_message(error), error.code or error.type
        body = self._head.body(
            "failed",
            self._output.items("incomplete"),
            usage=self._usage(),
            error={"code": code, "message": message},
        )
        return self._said(
            [
                {"type": "error", "code": code, "message": message, "param": error.param},
                {"type": "response.failed", "response": body},
            ]
        )

    def whole(self, reply: Json) -> Json:
        """The response."""
        self._answered = read_reply(reply)
        self._take(as_chunk(reply))
        return self._response()

    def records(self, interrupted: str | None = None) -> Sequence[tuple[Asked, Answered]]:
        """One record, under the id that the client was told."""
        answered = self._answered or self._draft.answered(interrupted)
        return [(self._asked, replace(answered, response_id=self._head.id))]

    def _take(self, chunk: Json) -> list[Json]:
        self._spent.add(chunk)
        events: list[Json] = []
        for choice in chunk.get("choices") or ():
            for fragment in fragments_in(choice):
                events += self._output.add(fragment)
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return events

    def _response(self) -> Json:
        status = STATUSES.get(self._finish_reason or "", "completed")
        return self._head.body(
            status, self._output.items(status), usage=self._usage(), finish_reason=self._finish_reason
        )

    def _usage(self) -> Json:
        return usage_of(self._spent.prompt, self._spent.cached, self._spent.completion)

    def _said(self, events: Iterable[Json]) -> bytes:
        said = []
        for body in events:
            said.append(event({**body, "sequence_number": self._number}, body["type"]))
            self._number += 1
        return b"".join(said)
