"""Calls and their results where a client keeps them as plain text (smolagents)."""

import ast
from dataclasses import dataclass

import orjson

from .answers import Json

CALLING = "Calling tools:\n"
RESULT = "Observation:\n"
TASK = "\nNew task:\n"
STOP = "</code>"  # where the engine stopped, and what the client puts back
INTERPRETER = "python_interpreter"  # the call that a client makes of a code block, and no model made
_LENGTH = 200_000


@dataclass(frozen=True)
class Retold:
    """An assistant's text, and the calls that followed it; `called` says that results come next."""

    text: str
    calls: tuple[Json, ...] = ()
    called: bool = False


def read_retold(text: str) -> Retold:
    """Take an assistant's text apart; one that retells nothing comes back as it is."""
    start = 0 if text.startswith(CALLING) else text.rfind("\n" + CALLING) + 1
    calls = () if start == 0 and not text.startswith(CALLING) else _calls(text[start + len(CALLING) :])
    if not calls:
        return Retold(text.rstrip().removesuffix(STOP))
    own = tuple(call for call in calls if call["function"].get("name") != INTERPRETER)
    return Retold(text[:start].rstrip().removesuffix(STOP), own, called=True)


def read_result(text: str) -> tuple[str, str] | None:
    """The results of calls, and what the user said behind them; None if `text` is something else."""
    if not text.startswith(RESULT):
        return None
    result, _, said = text.removeprefix(RESULT).partition(TASK)
    return result.strip(), said.strip()


def _calls(literal: str) -> tuple[Json, ...]:
    """A list of calls as Python prints it; empty if it is not one."""
    if len(literal) > _LENGTH:
        return ()
    try:
        calls = ast.literal_eval(literal.strip())
        orjson.dumps(calls)  # Python prints more than a call can hold
    except (ValueError, SyntaxError, MemoryError, RecursionError, orjson.JSONEncodeError):
        return ()
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        return ()
    return tuple(calls)


def _is_call(call: object) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)
