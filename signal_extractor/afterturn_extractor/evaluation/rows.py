"""Labelled next states, a JSON object a line."""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from afterturn_extractor.evidence import Evidence, NextStatePart, ToolCall, Verdict

Tier = Literal["core", "hard", "directive_only", "undecidable"]
TIERS: Final[tuple[Tier, ...]] = ("core", "hard", "directive_only", "undecidable")


class Row(BaseModel):
    """One labelled next state, as a line of the file holds it; further keys are ignored."""

    model_config = ConfigDict(frozen=True)

    id: str
    source: str
    tier: Tier
    user_request: str | None
    assistant: str
    next_role: Literal["user", "tool"]
    next_state: str
    label: Verdict | None
    directive: bool | None

    @model_validator(mode="after")
    def _label_where_there_is_one(self) -> Self:
        if (self.label is None) != (self.tier == "undecidable"):
            raise ValueError("label is null in the tier undecidable, and nowhere else")
        return self

    def evidence(self) -> Evidence:
        """Return the row as a judge sees it; `<tool_call> name {…}` in the text is a call."""
        said, *written = self.assistant.split("<tool_call>")
        calls = [call.strip().partition(" ") for call in written]
        return Evidence(
            self.user_request,
            (),
            said.strip(),
            tuple(ToolCall(name, arguments) for name, _, arguments in calls),
            (NextStatePart(self.next_role, self.next_state),),
        )


class BadRow(ValueError):
    """A line that is no labelled next state; the message names the line."""


def read_rows(path: Path) -> list[Row]:
    """Read a JSONL file; raises BadRow with the line's number, OSError if it cannot be read."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                rows.append(Row.model_validate_json(line))
            except ValidationError as error:
                raise BadRow(f"{path.name}:{number}: {error}") from error
    return rows
