"""From the tables to the calls of a turn and of those before it, with what each returned."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlmodel import Session, col, select

from afterturn_core.deposit import Json
from afterturn_core.history import load_history, unpack_content
from afterturn_core.models import Content, NextState, Turn
from afterturn_extractor.evidence import Evidence, ToolCall
from afterturn_extractor.fixed_calls import Called, Calls, fixes
from afterturn_extractor.load_evidence import text_of
from afterturn_extractor.tool_results import read_tool

TURNS_BACK: Final = 4  # further back a call that failed is seldom what the agent tries again
_MESSAGES: Final = 24  # of the history, among which their results are
_NO_WORD: Final = re.compile(r"[\W_]")  # clients change the punctuation of calls' ids


@dataclass(frozen=True)
class Told:
    """Hints by the turns that they are for, and the turn whose request showed that they work."""

    source_id: str
    hints: dict[str, str]


def may_fix(evidence: Evidence) -> bool:
    """Whether a turn's call succeeded where one shortly before had failed: worth a closer look."""
    return (
        bool(evidence.reply_tool_calls)
        and any(part.role == "tool" and read_tool(part.text).verdict == 1 for part in evidence.next_state)
        # An empty result may be an error too: what was called is not known here.
        and any(
            message.role == "tool" and read_tool(message.text).verdict in (-1, 0)
            for message in evidence.context
        )
    )


def load_fixes(session: Session, turn_id: str, evidence: Evidence) -> Told | None:
    """What a turn's calls put right of turns before it; `None` for nothing."""
    if not may_fix(evidence):
        return None
    follower = session.exec(
        select(Turn.id, Turn.history_digest)
        .join(NextState, col(NextState.source_id) == Turn.id)
        .where(NextState.turn_id == turn_id, NextState.role == "tool", col(NextState.believed))
        .order_by(col(NextState.created_at).desc(), col(NextState.position).desc())
        .limit(1)
    ).one_or_none()
    if follower is None:
        return None  # it was erased meanwhile
    source_id, history = follower
    steps = _steps(load_history(session, history, last=_MESSAGES))
    chain: list[Calls] = []
    at: str | None = turn_id
    while at is not None and len(chain) <= TURNS_BACK and steps:
        found = session.exec(
            select(Turn.parent_id, Content.body)
            .join(Content, col(Content.digest) == Turn.reply_digest)
            .where(Turn.id == at)
        ).one_or_none()
        if found is None:
            break
        parent_id, body = found
        chain.append(Calls(at, _called(unpack_content(body), steps)))
        at = parent_id
    put_right = fixes(chain[0], chain[1:]) if chain else []
    return Told(source_id, {fix.turn_id: fix.hint for fix in put_right}) if put_right else None


@dataclass(frozen=True)
class _Step:
    """A reply with calls in a history, and what they returned, by the calls' ids."""

    ids: tuple[str, ...]
    results: dict[str, str]


def _steps(messages: Sequence[Json]) -> list[_Step]:
    """Ids may come again in later replies, so results belong to the reply before them."""
    steps: list[_Step] = []
    for message in messages:
        if message.get("role") == "assistant" and message.get("tool_calls"):
            steps.append(_Step(tuple(_id(call.get("id")) for call in message["tool_calls"]), {}))
        elif message.get("role") == "tool" and steps:
            steps[-1].results[_id(message.get("tool_call_id"))] = text_of(message.get("content"))
    return steps


def _called(reply: Json, steps: list[_Step]) -> tuple[Called, ...]:
    """A reply's calls; the step that it is, and those after it, are taken off the list."""
    calls = reply.get("tool_calls") or []
    ids = tuple(_id(call.get("id")) for call in calls)
    at = next((number for number in reversed(range(len(steps))) if steps[number].ids == ids), None)
    results = {} if at is None else steps[at].results
    if at is not None:
        del steps[at:]
    called = []
    for call, name in zip(calls, ids, strict=True):
        function = call.get("function") or {}
        made = ToolCall(str(function.get("name", "")), str(function.get("arguments") or ""))
        called.append(Called(made, results.get(name)))
    return tuple(called)


def _id(told: object) -> str:
    return _NO_WORD.sub("", str(told))
