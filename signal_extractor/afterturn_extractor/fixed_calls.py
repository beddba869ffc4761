"""A tool call that failed and that the agent got right later: what it should have been, as a hint.

The idea is CLEANER's (self-purified trajectories): the fix teaches as a hint, and is no sample of its own.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from afterturn_extractor.evidence import ToolCall
from afterturn_extractor.folding import clean
from afterturn_extractor.hints import LONGEST, without_secrets
from afterturn_extractor.injection import orders_judge, speaks_to_judge
from afterturn_extractor.tool_reading import ERROR
from afterturn_extractor.tool_results import read_tool

ALIKE_FROM: Final = 0.6  # share of the arguments' letters that two tries of the same thing have in common
ARGUMENTS_AT_MOST: Final = 2000  # characters; comparing longer ones takes long, and no hint could hold them
_NAME: Final = re.compile(r"[\w.:/-]{1,64}")


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a turn and what it returned, `None` for nothing yet."""

    call: ToolCall
    result: str | None


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one turn."""

    turn_id: str
    called: tuple[Called, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """What would have made the turn `turn_id` better."""

    turn_id: str
    hint: str


def fixes(latest: Calls, earlier: Sequence[Calls]) -> list[Fix]:
    """What the calls of the latest turn put right; at most one fix for each of the earlier turns.

    A fix is a call of the same tool that succeeded, with other arguments that are alike: the same call again
    says that the environment had failed, and one that has little in common is another step. A call that holds
    a secret, speaks to a judge or is too long for a hint gives none.
    """
    right = [called for called in latest.called if _succeeded(called)]
    found = []
    for turn in earlier:
        wrong = [called for called in turn.called if _failed(called)]
        told = next((hint for one in wrong for other in right if (hint := _hint(one.call, other.call))), None)
        if told is not None:
            found.append(Fix(turn.turn_id, told))
    return found


def _failed(called: Called) -> bool:
    return called.result is not None and read_tool(called.result, calls=(called.call,)) == ERROR


def _succeeded(called: Called) -> bool:
    return called.result is not None and read_tool(called.result, calls=(called.call,)).verdict == 1


def _hint(wrong: ToolCall, right: ToolCall) -> str | None:
    if wrong.name != right.name or not _NAME.fullmatch(right.name):
        return None
    before, after = _canonical(wrong.arguments), _canonical(right.arguments)
    if before == after or max(len(before), len(after)) > ARGUMENTS_AT_MOST:
        return None
    if SequenceMatcher(None, before, after, autojunk=False).ratio() < ALIKE_FROM:
        return None
    text = f"Call {right.name} with {after}"
    harmless = text == clean(text) == without_secrets(text) and not (
        speaks_to_judge(text) or orders_judge(text)
    )
    return text if harmless and len(text) <= LONGEST else None


def _canonical(arguments: str) -> str:
    """Arguments so that equal ones are equal texts."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return " ".join(arguments.split())
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
