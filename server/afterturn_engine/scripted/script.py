"""What the scripted engine answers: rules tried in order, the first that fits is used."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Frozen):
    """One call in a reply; `arguments` is sent as written, odd spacing included.

    `pieces` fixes how the arguments are cut into stream chunks (one token each if left out).
    """

    name: str
    arguments: str = "{}"
    id: str | None = None
    pieces: tuple[str, ...] | None = None

    @property
    def argument_text(self) -> str:
        return self.arguments if self.pieces is None else "".join(self.pieces)


class Failure(_Frozen):
    """How a reply goes wrong.

    `status`: answered instead of a reply. `cut`: the connection drops after
    `after_pieces` pieces. `stream_error`: the stream says so in an error event,
    as vLLM does, and ends; a plain request gets a 500. `hang`: nothing more comes
    after `after_pieces` pieces until the client leaves.
    """

    kind: Literal["status", "cut", "stream_error", "hang"]
    status: int = 500
    message: str = "scripted failure"
    after_pieces: int = 0
    retry_after_s: int | None = None


class Reply(_Frozen):
    """One rule. It fits when `when` occurs in the last message (or prompt) and `model` is asked for.

    `pieces` and `reasoning_pieces` fix how words and thoughts are cut into stream
    chunks (one token each if left out); a reply without `content` and `pieces`
    repeats what it was told. `others` are the words of choices 1, 2, … where `n`
    asks for several; without them all choices say the same. `times` limits how
    often the rule is used. `finish_reason` overrides what follows from the request.
    """

    when: str | None = None
    model: str | None = None
    content: str | None = None
    pieces: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()
    reasoning: str | None = None
    reasoning_pieces: tuple[str, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    failure: Failure | None = None
    prefill_ms: float | None = Field(default=None, ge=0)
    piece_ms: float | None = Field(default=None, ge=0)
    times: int | None = Field(default=None, ge=1)

    def choice(self, index: int) -> "Reply":
        """The reply as choice `index` gives it."""
        if not 0 < index <= len(self.others):
            return self
        return self.model_copy(update={"content": self.others[index - 1], "pieces": None})


class Script(_Frozen):
    """Everything that is fixed about one scripted engine; times are milliseconds.

    `adapters_on_disk` asks of a loaded adapter that its folder holds a readable
    `adapter_config.json`, as vLLM does.
    """

    replies: tuple[Reply, ...] = ()
    served_name: str = "base"
    context_length: int = 8192
    prefill_ms: float = Field(default=0, ge=0)
    piece_ms: float = Field(default=0, ge=0)
    adapters_on_disk: bool = True
