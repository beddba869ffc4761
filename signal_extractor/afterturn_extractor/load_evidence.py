"""From the tables to what a judge sees: a turn, what came before it and what was believed after it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast, get_args

from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from afterturn_core.columns import attribute
from afterturn_core.errors import NotFound
from afterturn_core.history import load_content, load_history, unpack_content
from afterturn_core.lifecycle import ADMIN_WORD
from afterturn_core.models import Content, NextState, Turn
from afterturn_extractor.evidence import (
    CONTEXT_MESSAGES,
    Evidence,
    FeedbackKind,
    Message,
    NextStatePart,
    PartRole,
    Tool,
    ToolCall,
    Verdict,
)

_KINDS: Final = frozenset(get_args(FeedbackKind))
_RECENT: Final = CONTEXT_MESSAGES + 2  # messages: mostly these hold the request and all that a judge is shown


@dataclass(frozen=True)
class AdminWord:
    """What an administrator set: a verdict, or none."""

    verdict: Verdict | None


@dataclass(frozen=True)
class Case:
    """A turn as it is now: its state, the stamp of its latest evidence, the evidence, and the administrator's
    word about it that stands, if somebody set one."""

    state: str
    observed_at: datetime | None
    evidence: Evidence
    word: AdminWord | None


def load_case(session: Session, turn_id: str) -> Case:
    """A turn with what is believed about it and was not withdrawn.

    Raises:
        NotFound: no such turn, it may have been erased.
    """
    # Not the whole row: its token ids are long, and nobody judges those.
    found = session.exec(
        select(Turn, Content.body)
        .join(Content, col(Content.digest) == Turn.reply_digest)
        .where(Turn.id == turn_id)
        .options(
            defer(attribute(Turn.prompt_tail)),
            defer(attribute(Turn.token_ids)),
            defer(attribute(Turn.logprobs)),
        )
    ).one_or_none()
    if found is None:
        raise NotFound(f"no turn {turn_id}")
    turn, body = found
    reply = unpack_content(body)
    before = _before(session, turn.history_digest)
    requests = [message.text for message in before if message.role == "user"]
    rows = session.exec(
        select(NextState)
        .where(NextState.turn_id == turn_id, col(NextState.withdrawn).is_(False))
        .order_by(col(NextState.created_at), col(NextState.position))
    ).all()
    evidence = Evidence(
        user_request=requests[-1] if requests else None,
        context=tuple(before),
        reply_text=text_of(reply.get("content")),
        reply_tool_calls=tuple(_tool_call(call) for call in reply.get("tool_calls") or ()),
        next_state=tuple(_part(row) for row in rows if row.believed and row.kind != ADMIN_WORD),
        tools=_tools([] if turn.tools_digest is None else load_content(session, turn.tools_digest)),
        agent_id=turn.agent_id,
        turn_id=turn_id,
    )
    return Case(turn.state, turn.observed_at, evidence, _admin_word(rows))


def load_evidence(session: Session, turn_id: str) -> Evidence:
    """The evidence about a turn as it is now: only what is believed and was not withdrawn.

    Raises:
        NotFound: no such turn, it may have been erased.
    """
    return load_case(session, turn_id).evidence


def _before(session: Session, digest: str | None) -> list[Message]:
    """The messages before a turn: the last ones, or all of them where those do not hold what is judged by."""
    recent = [_message(message) for message in load_history(session, digest, last=_RECENT)]
    told = [message for message in recent if message.role != "system"]
    enough = len(told) >= CONTEXT_MESSAGES and any(message.role == "user" for message in told)
    if enough or len(recent) < _RECENT:
        return recent
    return [_message(message) for message in load_history(session, digest)]


def _admin_word(rows: Sequence[NextState]) -> AdminWord | None:
    word = next((row for row in rows if row.kind == ADMIN_WORD), None)
    if word is None:
        return None  # nobody set one
    return AdminWord(None if word.value is None else cast(Verdict, int(word.value)))


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the text parts of a list; nothing for other kinds."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _message(message: dict[str, Any]) -> Message:
    return Message(str(message.get("role", "")), text_of(message.get("content")))


def _tool_call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    return ToolCall(str(function.get("name", "")), str(function.get("arguments") or ""))


def _tools(offered: list[dict[str, Any]]) -> tuple[Tool, ...]:
    """The functions among them; none where there are tools of other kinds too, whose calls are unknown."""
    functions = [tool.get("function") for tool in offered]
    if not all(isinstance(function, dict) for function in functions):
        return ()
    return tuple(
        Tool(str(function.get("name", "")), json.dumps(function.get("parameters") or {}))
        for function in functions
        if isinstance(function, dict)
    )


def _part(row: NextState) -> NextStatePart:
    kind = cast(FeedbackKind, row.kind) if row.kind in _KINDS else None
    return NextStatePart(cast(PartRole, row.role), row.text, row.value, kind, row.weight)
