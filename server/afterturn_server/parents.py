"""The turn that a request continues: by its history, by what is left of it, by a reply that was dropped."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson
import sqlalchemy
from sqlmodel import Session, col, select

from afterturn_core.models import Turn

from .answers import Json
from .linking import History

LOOK_BACK = 32  # assistant messages from the end that are looked up
CANDIDATES = 64  # latest turns with one of the replies that a rewritten history carries

_TURNS = Turn.__table__  # type: ignore[attr-defined]
_EQUAL = sqlalchemy.select(
    _TURNS.c.id, _TURNS.c.link_key, _TURNS.c.choice_index, _TURNS.c.kind, _TURNS.c.tools_digest
)


@dataclass(frozen=True)
class Scope:
    """Where parents are looked for: one key of one agent, and one of its sessions if it was named."""

    agent_id: str
    key_id: str
    session_id: str | None = None


@dataclass(frozen=True)
class Parent:
    """A turn, and where its reply is in the history that continues it.

    `equals` are the turns whose reply it could be as well: parallel chats with the same words.
    """

    turn: Turn
    position: int
    equals: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    id: str
    choice_index: int
    kind: str
    tools_digest: str | None


def find_parent(
    session: Session,
    scope: Scope,
    history: History,
    tools: Sequence[Json] | None,
    previous: str | None = None,
) -> Parent | None:
    """The turn that this history continues.

    The response `previous`, where the client names one. Else the longest prefix wins; where something after
    it was rewritten, a later reply that is recognised by itself; a reply that the client dropped, where it
    says so.
    """
    named = None if previous is None else _named(session, scope, history, previous)
    if named is not None:
        return named
    dropped = _dropped(session, scope, history)
    if dropped is not None:
        return dropped
    replies = history.replies[-LOOK_BACK:]
    found = _by_prefix(session, scope, history, replies, tools) if replies else None
    if found is not None and found.position == replies[-1]:
        return found
    if found is None:
        return _by_traces(session, scope, history, -2)
    within = replace(scope, session_id=found.turn.session_id)
    later = _by_traces(session, within, history, found.position)
    return later if later is not None and later.turn.id > found.turn.id else found


def answered_among(session: Session, turn_ids: Collection[str]) -> set[str]:
    """Those of these turns that the conversation went on from."""
    statement = select(Turn.parent_id).where(col(Turn.parent_id).in_(turn_ids), Turn.kind == "main")
    return {parent_id for parent_id in session.exec(statement).all() if parent_id is not None}


def _by_prefix(
    session: Session, scope: Scope, history: History, replies: Sequence[int], tools: Sequence[Json] | None
) -> Parent | None:
    by_key = {history.keys[position]: position for position in replies}
    statement = _EQUAL.where(
        _TURNS.c.key_id == scope.key_id, _TURNS.c.agent_id == scope.agent_id, _TURNS.c.link_key.in_(by_key)
    )
    if scope.session_id is not None:
        statement = statement.where(_TURNS.c.session_id == scope.session_id)
    rows = session.connection().execute(statement).all()
    if not rows:
        return None
    position = max(by_key[row.link_key] for row in rows)
    equal = [
        _Candidate(row.id, row.choice_index, row.kind, row.tools_digest)
        for row in rows
        if by_key[row.link_key] == position
    ]
    best = _likeliest(session, equal, tools)
    others = tuple(one.id for one in equal if one.id != best and one.choice_index == 0)
    return Parent(session.get_one(Turn, best), position, others)


def _likeliest(session: Session, equal: Sequence[_Candidate], tools: Sequence[Json] | None) -> str:
    """Of turns with equal histories the one that the client means most likely.

    One of the conversation before an errand, one that was offered the same tools before one that was not
    (sub-agents), one that nothing continues yet before one that was continued: so equal chats stay apart
    once each goes on. Of equal choices of one reply the first; then the latest.
    """
    if len(equal) == 1:
        return equal[0].id
    answered = answered_among(session, [one.id for one in equal])
    same = tools_digest(tools)

    def rank(one: _Candidate) -> tuple[bool, bool, bool, int, str]:
        main = one.kind == "main"
        return main, one.tools_digest == same, one.id not in answered, -one.choice_index, one.id

    return max(equal, key=rank).id


def tools_digest(tools: Sequence[Json] | None) -> str | None:
    """The digest under which a tool list is stored; None for no tools."""
    return hashlib.sha256(orjson.dumps(list(tools))).hexdigest() if tools else None


def _by_traces(session: Session, scope: Scope, history: History, after: int) -> Parent | None:
    """The turn of the last reply that is recognised by itself, behind position `after`.

    Among all sessions of a key only replies count that hardly any other conversation can have, and of
    several sessions the one that more of them point to; none, if two are as likely.
    """
    traces = [trace for trace in history.traces[:LOOK_BACK] if trace.position > after]
    if scope.session_id is None:
        traces = [trace for trace in traces if trace.telling]
    if not traces:
        return None
    positions: dict[str, int] = {}
    for trace in traces:
        positions.setdefault(trace.reply_key, trace.position)
    statement = (
        select(Turn.id, Turn.session_id, Turn.reply_key)
        .where(
            Turn.key_id == scope.key_id,
            Turn.agent_id == scope.agent_id,
            Turn.choice_index == 0,
            col(Turn.reply_key).in_(positions),
        )
        .order_by(col(Turn.id).desc())
        .limit(CANDIDATES)
    )
    if scope.session_id is not None:
        statement = statement.where(Turn.session_id == scope.session_id)
    said: dict[str, dict[int, str]] = {}
    for turn_id, session_id, reply_key in session.exec(statement).all():
        if reply_key is not None:  # latest first: of equal replies of a session the latest stays
            said.setdefault(session_id, {}).setdefault(positions[reply_key], turn_id)
    likeliest = _most_said(said)
    if likeliest is None:
        return None
    position = max(likeliest)
    return Parent(session.get_one(Turn, likeliest[position]), position)


def _most_said(said: Mapping[str, Mapping[int, str]]) -> Mapping[int, str] | None:
    ranked = sorted(said.values(), key=lambda found: (len(found), max(found)), reverse=True)
    if not ranked:
        return None
    if len(ranked) > 1 and (len(ranked[0]), max(ranked[0])) == (len(ranked[1]), max(ranked[1])):
        return None
    return ranked[0]


def _named(session: Session, scope: Scope, history: History, response_id: str) -> Parent | None:
    statement = select(Turn).where(
        Turn.response_id == response_id,
        Turn.key_id == scope.key_id,
        Turn.agent_id == scope.agent_id,
        Turn.choice_index == 0,
    )
    if scope.session_id is not None:
        statement = statement.where(Turn.session_id == scope.session_id)
    turn = session.exec(statement).first()
    if turn is None or turn.link_key not in history.keys:
        return None
    return Parent(turn, history.keys.index(turn.link_key))


def _dropped(session: Session, scope: Scope, history: History) -> Parent | None:
    """The turn whose reply the client threw away and complains about instead."""
    position = history.dropped_reply
    if position is None:
        return None
    statement = select(Turn).where(
        Turn.key_id == scope.key_id,
        Turn.agent_id == scope.agent_id,
        Turn.prompt_key == history.keys[position],
        Turn.choice_index == 0,
        Turn.kind == "main",
    )
    if scope.session_id is not None:
        statement = statement.where(Turn.session_id == scope.session_id)
    turn = session.exec(statement.order_by(col(Turn.id).desc()).limit(1)).first()
    return None if turn is None else Parent(turn, position)
