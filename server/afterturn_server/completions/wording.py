"""The engine's completions as the client wants them, and as they are recorded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from afterturn_core.errors import AfterturnError
from afterturn_core.ids import new_id

from ..answers import Json, error_body, event
from ..events import DONE
from ..linking import read_history
from ..protocol import Wording
from ..recording import Answered, Asked, Choice
from .request import Prompt, spoken


@dataclass(frozen=True)
class Shown:
    """What the client asked to see. Choice `i` answers prompt `i // choices`."""

    model: str
    prompts: tuple[Prompt, ...]
    choices: int
    logprobs: bool
    token_ids: bool
    usage: bool
    echo: bool

    def strip(self, reply: Json) -> None:
        """Make an engine's body or chunk the client's, in place."""
        reply["model"] = self.model
        for choice in reply.get("choices") or ():
            if not self.token_ids:
                choice.pop("token_ids", None)
                choice.pop("prompt_token_ids", None)
            if not self.logprobs:
                choice["logprobs"] = None


@dataclass
class _Draft:
    """One choice while it arrives."""

    text: list[str] = field(default_factory=list)
    prompt_token_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    begun: bool = False

    def add(self, choice: Json) -> None:
        ids = choice.get("token_ids") or []
        self.text.append(choice.get("text") or "")
        self.prompt_token_ids = choice.get("prompt_token_ids") or self.prompt_token_ids
        self.token_ids += ids
        # With an echo those of the prompt come first.
        sampled = (choice.get("logprobs") or {}).get("token_logprobs") or []
        self.logprobs += [
            math.nan if value is None else value for value in sampled[len(sampled) - len(ids) :]
        ]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def whole(self, index: int, interrupted: str | None) -> Choice:
        message = {"role": "assistant", "content": "".join(self.text)}
        reason = self.finish_reason or interrupted
        return Choice(index, message, reason, tuple(self.token_ids), tuple(self.logprobs))


class CompletionWording(Wording):
    """Chunks and bodies pass through; an echoed prompt goes in front."""

    def __init__(self, asked: Asked, shown: Shown) -> None:
        self._asked = asked
        self._shown = shown
        self._drafts: dict[int, _Draft] = {}
        self._id = ""

    def chunk(self, chunk: Json) -> bytes:
        """The chunk itself."""
        self._take(chunk)
        if self._shown.usage:
            chunk.setdefault("usage", None)
        return event(chunk)

    def done(self) -> bytes:
        """`[DONE]`."""
        return DONE

    def failed(self, error: AfterturnError) -> bytes:
        """OpenAI's error object as an event; `[DONE]` would say that the reply is whole and recorded."""
        return event(error_body(error))

    def whole(self, reply: Json) -> Json:
        """The reply itself."""
        self._take(reply)
        return reply

    def _take(self, reply: Json) -> None:
        self._id = reply.get("id") or self._id
        for choice in reply.get("choices") or ():
            index = choice.get("index", 0)
            draft = self._drafts.setdefault(index, _Draft())
            draft.add(choice)
            if self._shown.echo and not draft.begun:
                choice["text"] = f"{self._shown.prompts[index // self._shown.choices]}{choice['text']}"
            draft.begun = True
        self._shown.strip(reply)

    def records(self, interrupted: str | None = None) -> Sequence[tuple[Asked, Answered]]:
        """One record for each prompt, of one turn for each choice."""
        count = self._shown.choices
        return [
            (
                self._about(number),
                self._answered(range(number * count, (number + 1) * count), interrupted),
            )
            for number in range(len(self._shown.prompts))
        ]

    def _about(self, number: int) -> Asked:
        if number == 0:
            return self._asked
        # A prompt beside the first: a turn of the same session that goes on from nothing.
        messages = spoken(self._shown.prompts[number])
        place = replace(
            self._asked.place, new_session=False, parent_id=None, attempt_of=None, pieces=(), ancestors=()
        )
        return replace(
            self._asked,
            turn_id=new_id("turn"),
            messages=messages,
            history=read_history(messages),
            place=place,
        )

    def _answered(self, indexes: range, interrupted: str | None) -> Answered:
        drafts = [self._drafts.get(index) or _Draft() for index in indexes]
        choices = [draft.whole(number, interrupted) for number, draft in enumerate(drafts)]
        return Answered(self._id, tuple(drafts[0].prompt_token_ids), tuple(choices), interrupted)
