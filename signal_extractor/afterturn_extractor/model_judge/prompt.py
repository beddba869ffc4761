"""What a judge model is shown: the rules of judging, and the evidence as one line of JSON between nonces."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Final

from afterturn_extractor.evidence import CONTEXT_MESSAGES, Evidence

VERSION: Final = "verdict-1"
CONTEXT_CHARACTERS: Final = 1_500
PART_CHARACTERS: Final = 6_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """System and user message of one vote."""

    system: str
    user: str


def material(evidence: Evidence) -> str:
    """The evidence as one line of ASCII JSON: no text in it can end the line, so none can leave it.

    Long texts lose their middle; of what came before the turn the last six messages are kept.
    """
    before = [message for message in evidence.context if message.role != "system"][-CONTEXT_MESSAGES:]
    return json.dumps(
        {
            "request": shortened(evidence.user_request or "", PART_CHARACTERS),
            "context": [
                {"role": message.role, "text": shortened(message.text, CONTEXT_CHARACTERS)}
                for message in before
            ],
            "reply": shortened(evidence.reply_text, PART_CHARACTERS),
            "tool_calls": [
                {"name": call.name, "arguments": shortened(call.arguments, CONTEXT_CHARACTERS)}
                for call in evidence.reply_tool_calls
            ],
            "next": [
                {"role": part.role, "text": shortened(part.text, PART_CHARACTERS)}
                | ({} if part.value is None else {"value": part.value})
                for part in evidence.next_state
            ],
        }
    )


def prompt(evidence: Evidence, nonce: str) -> Prompt:
    """The messages of one vote. `nonce` is unguessable by whoever wrote the evidence."""
    begin, end = f"<material {nonce}>", f"</material {nonce}>"
    rules = resources.files(__package__).joinpath("prompts", f"{VERSION}.txt").read_text(encoding="utf-8")
    system = rules.replace("{begin}", begin).replace("{end}", end)
    return Prompt(system, f"{begin}\n{material(evidence)}\n{end}\nAnswer with the JSON object alone.")


def shortened(text: str, longest: int) -> str:
    """`text` without its middle where it is longer than `longest` characters."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} […{len(text) - 2 * half} characters left out…] {text[-half:]}"
