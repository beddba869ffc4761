"""Where a hint goes: into a copy of the exact prompt ids, at the end of the last thing the model was told.

The ids around the hint stay as the engine rendered them, tools and system prompt included, so teacher and
student differ by the hint alone. Nothing here ever touches the student's prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn_trainer.sample import Ids

TAIL = 200  # characters of a message that are enough to find its end again


class Tokenizer(Protocol):
    """The slice of a Hugging Face tokenizer that is used."""

    @property
    def all_special_ids(self) -> list[int]: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...


@dataclass(frozen=True)
class Told:
    """The last message before the reply that a hint can follow: the user's, or a tool's result."""

    role: str
    text: str


def last_told(messages: Sequence[dict[str, object]]) -> Told | None:
    """The last user message or tool result; None for a raw completion or a history without either."""
    for message in reversed(messages):
        role = message.get("role")
        if role in ("user", "tool", "function"):
            return Told(str(role), _text(message.get("content")))
    return None


def hint_note(hint: str, role: str) -> str:
    """The words that join a hint to what precedes it, the same for every hint and role.

    Of eight neutral wordings this one made the default model follow most hints (28 of 36 replies; the bare
    hint as a paragraph of its own 20, in brackets 22, before the question 23).
    """
    return f"\n\nNote: {hint.strip()}"


def teacher_prompt(
    prompt_ids: Sequence[int], told: Told | None, hint: str, tokenizer: Tokenizer
) -> Ids | None:
    """The prompt with the hint [P + H]; None when the message's end cannot be found in the prompt.

    A raw completion has no messages: its hint comes first, as an instruction above the text.
    """
    if told is None:
        note = f"{hint.strip()}\n\n"
        return (*tokenizer.encode(note, add_special_tokens=False), *prompt_ids)
    position = end_of(prompt_ids, told.text, tokenizer)
    if position is None:
        return None
    note_ids = tokenizer.encode(hint_note(hint, told.role), add_special_tokens=False)
    return (*prompt_ids[:position], *note_ids, *prompt_ids[position:])


def end_of(prompt_ids: Sequence[int], text: str, tokenizer: Tokenizer) -> int | None:
    """Index of the first id after the last occurrence of `text` as the end of a message.

    A message ends at a special token (`<|im_end|>`, `<|eot_id|>`, …) in every chat template with tokens of
    its own; the text between two of them is compared, so a role's name is never taken for a message.
    """
    tail = text.strip()[-TAIL:]
    if not tail:
        return None
    special = set(tokenizer.all_special_ids)
    marks = [index for index, token in enumerate(prompt_ids) if token in special]
    for number in range(len(marks) - 1, -1, -1):
        start = marks[number - 1] + 1 if number else 0
        between = tokenizer.decode(prompt_ids[start : marks[number]], skip_special_tokens=False)
        if _ends_message(between.strip(), tail):
            return _before_space(prompt_ids, start, marks[number], tokenizer.decode)
    return None


def _ends_message(between: str, tail: str) -> bool:
    """Whether a stretch is a message that ends in `tail`: alone, below its role's line, or unmistakably."""
    if between == tail or between.endswith(f"\n{tail}"):
        return True
    return len(tail) >= 16 and tail in between


def _before_space(prompt_ids: Sequence[int], start: int, end: int, decode: Callable[..., str]) -> int:
    """Step back over ids that are only white space, which templates put before their closing token."""
    while end > start + 1 and not decode(prompt_ids[end - 1 : end], skip_special_tokens=False).strip():
        end -= 1
    return end


def _text(content: object) -> str:
    """A message's text; of content in parts, the last text part, whose end is the message's."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        for part in reversed(content):
            if isinstance(part, str):
                return part
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                return str(part["text"])
    return ""
