"""Who or what told how a turn was: the client's user, or the tool. No one of several makes up a round."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from .history import load_content
from .models import FIX, NextState, Turn

USER, TOOL = "user", "tool"


def sources_of(session: Session, turns: Sequence[Turn]) -> dict[str, str]:
    """The source of each turn's signal by the turn's id: `tool NAME` where nothing but tool results is
    believed about it, else `user NAME`, without a name where the client gave none."""
    roles: dict[str, set[str]] = {}
    believed = select(NextState.turn_id, NextState.role).where(
        col(NextState.turn_id).in_([turn.id for turn in turns]),
        col(NextState.believed).is_(True),
        col(NextState.withdrawn).is_(False),
        col(NextState.kind).is_distinct_from(FIX),  # that is the tools' word too
    )
    for turn_id, role in session.exec(believed).all():
        roles.setdefault(turn_id, set()).add(role)
    return {turn.id: _source(session, turn, roles.get(turn.id, set())) for turn in turns}


def within_share(turn_ids: Sequence[str], sources: Mapping[str, str], share: float, most: int) -> list[str]:
    """As many of these turns, the first ones first and at most `most`, as leave no source more than `share`
    of them. A source that is alone is not held back, nor is anyone where no number of turns would do.

    The others are not used up: they wait for the next choice.
    """
    count = Counter(sources[turn_id] for turn_id in turn_ids)
    size = min(most, len(turn_ids))
    if len(count) < 2:
        return list(turn_ids[:size])
    while size > 1 and sum(min(one, math.floor(share * size)) for one in count.values()) < size:
        size -= 1
    if size <= 1:
        return list(turn_ids[: min(most, len(turn_ids))])
    left = dict.fromkeys(count, math.floor(share * size))
    chosen: list[str] = []
    for turn_id in turn_ids:
        if len(chosen) < size and left[sources[turn_id]] > 0:
            left[sources[turn_id]] -= 1
            chosen.append(turn_id)
    return chosen


def _source(session: Session, turn: Turn, roles: Iterable[str]) -> str:
    if set(roles) == {TOOL}:
        name = _called(load_content(session, turn.reply_digest))
        return f"{TOOL} {name}".strip()
    return f"{USER} {turn.client_user or ''}".strip()


def _called(reply: Any) -> str:
    """The name of the first tool that a reply calls; empty if it names none."""
    for call in reply.get("tool_calls") or ():
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            return str(function.get("name", ""))
    return ""
