"""Where a request belongs: its session, the turn it answers, and what it tells about earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import bindparam, func
from sqlmodel import Session, col, select

from afterturn_core.columns import utc_now
from afterturn_core.errors import RequestError
from afterturn_core.history import load_content
from afterturn_core.ids import new_id
from afterturn_core.lifecycle import Piece, believe, observe
from afterturn_core.models import NextState, Turn

from .answers import Json
from .kind import kind_of
from .linking import Entry, History, reply_entry
from .parents import Parent, Scope, answered_among, find_parent
from .place import Ancestor, Place
from .sessions import named_session
from .turn_options import TurnOptions

ATTEMPT_WINDOW = timedelta(minutes=10)  # the same prompt again within it is another attempt
BELIEVE_BACK = 3  # ancestors whose next state a request can still confirm

_TURNS = Turn.__table__  # type: ignore[attr-defined]
_SAME_PROMPT = select(func.max(_TURNS.c.id)).where(
    _TURNS.c.key_id == bindparam("key"),
    _TURNS.c.agent_id == bindparam("agent"),
    _TURNS.c.prompt_key == bindparam("prompt"),
    _TURNS.c.kind == bindparam("kind"),
    _TURNS.c.choice_index == 0,
    _TURNS.c.created_at > bindparam("since"),
)
_SAME_PROMPT_IN = _SAME_PROMPT.where(_TURNS.c.session_id == bindparam("session"))


def find_place(
    session: Session,
    agent_id: str,
    key_id: str,
    history: History,
    options: TurnOptions,
    *,
    tools: Sequence[Json] | None,
    previous: str | None = None,
) -> Place:
    """Link a request to the turn whose reply it carries; nothing of another key, or of another agent of an
    admin key, is ever looked at. `previous` is the id of the response that it says it goes on from.

    Raises:
        RequestError: the named session is another agent's.
    """
    known = _known(session, agent_id, key_id, options)
    scope = Scope(agent_id, key_id, known.session_id)
    parent = None if known.closed else find_parent(session, scope, history, tools, previous)
    if parent is None and known.hinted:
        # A client gave the session a new name, as some do when they resume: the history tells which it is.
        scope = Scope(agent_id, key_id)
        parent = find_parent(session, scope, history, tools, previous)
    session_id = parent.turn.session_id if parent is not None else known.session_id or new_id("session")
    new = known.session_id is None and parent is None
    within = None if new else session_id
    turn = None if parent is None else parent.turn
    kind, reason = kind_of(session, within, history, options, parent=turn, has_tools=bool(tools))
    return Place(
        session_id=session_id,
        new_session=new,
        external_id=known.name,
        parent_id=None if parent is None else parent.turn.id,
        attempt_of=None
        if known.closed
        else _attempt(session, replace(scope, session_id=within), history, kind),
        kind=kind,
        kind_reason=reason,
        pieces=() if parent is None else history.pieces_after(parent.position),
        ancestors=() if parent is None else _ancestors(session, parent, history),
        position=None if parent is None else parent.position,
        equals=() if parent is None else parent.equals,
    )


def look_again(session: Session, place: Place, history: History) -> Place:
    """The place at the moment of recording.

    Two equal chats that went on at the same time found the same parent, as neither was stored: the second
    to be stored takes the turn that nobody took.
    """
    if place.parent_id is None or place.position is None or not place.equals:
        return place
    candidates = [place.parent_id, *place.equals]
    # Two gateways that store at once: one waits here for the other's commit, and sees it.
    session.exec(select(Turn.id).where(col(Turn.id).in_(candidates)).order_by(Turn.id).with_for_update())
    answered = answered_among(session, candidates)
    free = [turn_id for turn_id in place.equals if turn_id not in answered]
    if place.parent_id not in answered or not free or place.kind != "main":
        return place
    parent = Parent(session.get_one(Turn, max(free)), place.position)
    return replace(
        place,
        session_id=parent.turn.session_id,
        parent_id=parent.turn.id,
        ancestors=_ancestors(session, parent, history),
    )


def tell_ancestors(session: Session, turn_id: str, place: Place) -> list[str]:
    """Store what this request says about earlier turns; returns the ids of those it told about.

    A side turn tells nothing.
    """
    told: list[str] = []
    if place.kind == "main":
        for ancestor in place.ancestors:
            believe(session, ancestor.turn_id, turn_id, ancestor.pieces)
            told.append(ancestor.turn_id)
        if place.parent_id is not None and place.pieces:
            observe(session, place.parent_id, turn_id, place.pieces)
            told.append(place.parent_id)
    return told


def observed_among(session: Session, turn_ids: Sequence[str]) -> list[str]:
    """Those of these turns that wait for a verdict now."""
    if not turn_ids:
        return []
    statement = select(Turn.id).where(col(Turn.id).in_(turn_ids), Turn.state == "observed")
    return list(session.exec(statement).all())


@dataclass(frozen=True)
class _Known:
    """The session as the client names it.

    `session_id` is the one that is there under this `name`. `closed`: a session that is not there yet has
    no turns to look among. `hinted`: the name came with the client's own habits, not from whoever set it up.
    """

    name: str | None = None
    session_id: str | None = None
    closed: bool = False
    hinted: bool = False


def _known(session: Session, agent_id: str, key_id: str, options: TurnOptions) -> _Known:
    if options.session is not None:
        named = named_session(session, key_id, options.session)
        if named is not None and named.agent_id != agent_id:
            raise RequestError("This session belongs to another agent.", param="session_id")
        return _Known(options.session, None if named is None else named.id, closed=named is None)
    if options.client_session is not None:
        named = named_session(session, key_id, options.client_session)
        if named is None or named.agent_id == agent_id:
            session_id = None if named is None else named.id
            return _Known(options.client_session, session_id, closed=named is None, hinted=True)
    return _Known()


def _ancestors(session: Session, parent: Parent, history: History) -> tuple[Ancestor, ...]:
    """Turns before the parent whose replies this history carries, with what followed each."""
    found: list[Ancestor] = []
    turn, before = parent.turn, parent.position
    for _ in range(BELIEVE_BACK):
        if turn.parent_id is None:
            break
        turn = session.get_one(Turn, turn.parent_id)
        at = _position(session, turn, before, history)
        if at is None:
            continue
        before = at
        pieces = _unconfirmed(session, turn.id, history.pieces_after(at))
        if pieces:
            found.append(Ancestor(turn.id, pieces))
    return tuple(found)


def _position(session: Session, turn: Turn, before: int, history: History) -> int | None:
    """Where a turn's reply is in a history, ahead of `before`; a rewritten beginning does not matter."""
    earlier = [position for position in history.replies if position < before]
    for position in reversed(earlier):
        if history.keys[position] == turn.link_key:
            return position
    if earlier and _reply(session, turn) == history.entries[earlier[-1]]:
        return earlier[-1]
    return None


def _reply(session: Session, turn: Turn) -> Entry:
    return reply_entry(load_content(session, turn.reply_digest))


def _unconfirmed(session: Session, turn_id: str, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    believed = set(
        session.exec(
            select(NextState.role, NextState.text).where(
                NextState.turn_id == turn_id,
                NextState.believed == True,  # noqa: E712 - SQL
            )
        ).all()
    )
    return tuple(piece for piece in pieces if (piece.role, piece.text) not in believed)


def _attempt(session: Session, scope: Scope, history: History, kind: str) -> str | None:
    """The latest turn of this kind with the very same prompt, if it was minutes ago: this is another
    attempt. (A title is asked for with the words of the conversation's first turn, and is none.)"""
    asked = {
        "key": scope.key_id,
        "agent": scope.agent_id,
        "prompt": history.key,
        "kind": kind,
        "since": utc_now() - ATTEMPT_WINDOW,
    }
    if scope.session_id is None:
        earlier: str | None = session.connection().scalar(_SAME_PROMPT, asked)
    else:
        earlier = session.connection().scalar(_SAME_PROMPT_IN, {**asked, "session": scope.session_id})
    return earlier
