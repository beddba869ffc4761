"""What one tool result says about the turn that called the tool."""

from dataclasses import dataclass
from typing import Literal

from afterturn_extractor.evidence import Verdict

Kind = Literal["progress", "error", "environment", "empty"]


@dataclass(frozen=True, slots=True)
class ToolReading:
    """What one tool result says. An environment fault has no verdict: the agent could not help it."""

    verdict: Verdict | None
    kind: Kind


PROGRESS = ToolReading(1, "progress")
ERROR = ToolReading(-1, "error")
ENVIRONMENT = ToolReading(None, "environment")
EMPTY = ToolReading(0, "empty")
