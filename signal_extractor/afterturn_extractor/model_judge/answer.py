"""What a judge model answers, and how it is read."""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from afterturn_extractor.folding import clean

LONGEST_REASON: Final = 500
MOST_HINTS: Final = 3


class MalformedAnswer(ValueError):
    """The model's text is not the object it was asked for."""


class Answer(BaseModel):
    """One vote. `verdict` None: the model says that it cannot tell."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    reason: str = ""
    addressed: bool = False
    verdict: Literal[-1, 0, 1] | None
    hints: tuple[str, ...] = Field(default=(), max_length=MOST_HINTS, strict=False)

    @field_validator("verdict", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        """In Python `True` equals 1 and 1.0 does; a vote is neither."""
        if value is not None and type(value) is not int:
            raise ValueError("verdict is -1, 0, 1 or null")
        return value


# Written out: generated schemas differ between versions of pydantic, and grammars take only simple ones.
SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": LONGEST_REASON},
        "addressed": {"type": "boolean"},
        "verdict": {"enum": [-1, 0, 1, None]},
        "hints": {"type": "array", "items": {"type": "string"}, "maxItems": MOST_HINTS},
    },
    "required": ["reason", "addressed", "verdict", "hints"],
    "additionalProperties": False,
}


def read(text: str) -> Answer:
    """The vote in a model's text: the text itself, or the one object in it (a fence, words around it).

    Raises:
        MalformedAnswer: no object, more than one, or one of another shape.
    """
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise MalformedAnswer("no JSON object in the answer")
    try:
        answer = Answer.model_validate_json(text[begin : end + 1])
    except ValidationError as error:
        problems = "; ".join(
            problem["msg"] for problem in error.errors(include_input=False, include_url=False)
        )
        raise MalformedAnswer(problems) from None
    # A model can write what no database takes, NUL for one.
    return answer.model_copy(update={"reason": clean(answer.reason)[:LONGEST_REASON]})
