"""From the tables to what a judge sees: a turn, what came before it and what was believed after it."""

import json
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from sqlmodel import Session, col, select

from afterturn_core.errors import NotFound
from afterturn_core.history import load_content, load_history
from afterturn_core.lifecycle import ADMIN_WORD
from afterturn_core.models import NextState, Turn
from afterturn_extractor.evidence import (
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


def load_evidence(session: Session, turn_id: str) -> Evidence:
    """The evidence about a turn as it is now: only what is believed and was not withdrawn.

    Raises:
        NotFound: no such turn, it may have been erased.
    """
    turn = session.get(Turn, turn_id)
    if turn is None:
        raise NotFound(f"no turn {turn_id}")
    history = [_message(message) for message in load_history(session, turn.history_digest)]
    reply = load_content(session, turn.reply_digest)
    rows = session.exec(
        select(NextState)
        .where(
            NextState.turn_id == turn_id,
            col(NextState.believed).is_(True),
            col(NextState.withdrawn).is_(False),
        )
        .order_by(col(NextState.created_at), col(NextState.position))
    ).all()
    requests = [message.text for message in history if message.role == "user"]
    return Evidence(
        user_request=requests[-1] if requests else None,
        context=tuple(history),
        reply_text=text_of(reply.get("content")),
        reply_tool_calls=tuple(_tool_call(call) for call in reply.get("tool_calls") or ()),
        next_state=tuple(part for row in rows if (part := _part(row)) is not None),
        tools=_tools([] if turn.tools_digest is None else load_content(session, turn.tools_digest)),
        agent_id=turn.agent_id,
        turn_id=turn.id,
    )


@dataclass(frozen=True)
class AdminWord:
    """What an administrator set: a verdict, or none."""

    verdict: Verdict | None


def admin_word(session: Session, turn_id: str) -> AdminWord | None:
    """The administrator's word about a turn that stands; `None` if nobody set one."""
    row = session.exec(
        select(NextState).where(
            NextState.turn_id == turn_id,
            NextState.kind == ADMIN_WORD,
            col(NextState.withdrawn).is_(False),
        )
    ).first()
    if row is None:
        return None
    return AdminWord(None if row.value is None else cast(Verdict, int(row.value)))


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


def _part(row: NextState) -> NextStatePart | None:
    if row.kind == ADMIN_WORD:
        return None  # not evidence: it decides, see `admin_word`
    kind = cast(FeedbackKind, row.kind) if row.kind in _KINDS else None
    return NextStatePart(cast(PartRole, row.role), row.text, row.value, kind)
