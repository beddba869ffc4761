"""What is known about a turn when it is judged, and what the judging says."""

from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal[-1, 0, 1]
Source = Literal["explicit", "outcome", "judge", "rules"]
PartRole = Literal["tool", "user", "feedback", "outcome"]
FeedbackKind = Literal["thumb", "score", "correction", "preferred", "comment", "outcome", "fix"]

HINTS_KEPT: Final = 3
CONTEXT_MESSAGES: Final = 6  # before the turn, that a judge is shown at most


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation before the turn."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of the reply; `arguments` is the JSON text the agent wrote."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the request offered; `parameters` is the JSON text of its schema."""

    name: str
    parameters: str


@dataclass(frozen=True, slots=True)
class NextStatePart:
    """One piece of the next state, in order of arrival; feedback and outcomes have `value` and `kind`.
    `weight`: how much an outcome counts for this turn, 1 at most."""

    role: PartRole
    text: str
    value: float | None = None
    kind: FeedbackKind | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """A turn with everything that followed it; all of it is data to be judged, none of it an instruction."""

    user_request: str | None
    context: tuple[Message, ...]
    reply_text: str
    reply_tool_calls: tuple[ToolCall, ...]
    next_state: tuple[NextStatePart, ...]
    tools: tuple[Tool, ...] = ()
    # Whose it is: for budgets, never shown to a judge.
    agent_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """A short instruction that would have made the turn better, and which source it comes from."""

    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdict and hints of one turn. `verdict` None means no verdict, which is not 0. `weight` is the
    verdict's and no hint's."""

    verdict: Verdict | None
    source: Source
    votes: tuple[Verdict | None, ...] = ()
    rationale: str = ""
    hints: tuple[Hint, ...] = ()
    flags: frozenset[str] = field(default_factory=frozenset)
    # Model and prompt version of a judge that is a model.
    judged_by: str | None = None
    weight: float = 1.0

    @property
    def abstains(self) -> bool:
        """Whether the turn teaches nothing: neither a verdict of ±1 nor a hint."""
        return self.verdict in (None, 0) and not self.hints
