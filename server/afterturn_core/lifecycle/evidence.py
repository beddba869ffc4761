"""What came after a turn, and which of it counts: turns open → observed, or excluded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import Session, col, select

from ..columns import utc_now
from ..errors import Conflict
from ..ids import new_id
from ..models import FIX, Conversation, NextState, Turn
from ..synthetic import is_synthetic
from .compare_and_set import move


@dataclass(frozen=True)
class Piece:
    """One piece of a next state: a tool result or a user's text, as the request carried it."""

    role: str
    text: str
    kind: str | None = None
    value: float | None = None
    weight: float = 1.0


def observe(session: Session, turn_id: str, source_id: str, pieces: Sequence[Piece]) -> None:
    """Note what a request carried after this turn's reply: tool results count at once, a user's
    text is a candidate until the conversation goes on from it (`believe`)."""
    rows = next_states(session, turn_id)
    known = {(row.role, row.text) for row in rows}
    free = _free_position(rows, source_id)
    # A request sent again tells nothing new, so it must not open a judged or trained turn again.
    fresh = False
    for position, piece in enumerate(pieces, start=free):
        if (piece.role, piece.text) in known:
            continue
        fresh = fresh or piece.role != "user"
        session.add(_row(turn_id, source_id, position, piece, believed=piece.role != "user"))
    session.flush()
    if fresh:
        _mark_observed(session, turn_id)


def believe(session: Session, turn_id: str, source_id: str, pieces: Sequence[Piece]) -> None:
    """A later request carries these pieces as history after the turn: they are what happened."""
    observe(session, turn_id, source_id, pieces)
    texts = {(piece.role, piece.text) for piece in pieces}
    changed = False
    for row in next_states(session, turn_id):
        if (row.role, row.text) in texts and not row.believed and is_synthetic(row.text) is None:
            row.believed = changed = True
            session.add(row)
    session.flush()
    if changed:
        _mark_observed(session, turn_id)


def settle_session(session: Session, session_id: str, *, ended: bool) -> list[str]:
    """The session has been idle, or was closed (`ended`): believe what waits in it.

    When it was merely idle, a text that matches a synthetic pattern stays unbelieved.
    Returns the ids of turns that are observed now.
    """
    conversation = session.get_one(Conversation, session_id)
    rows = session.exec(
        select(NextState)
        .join(Turn, col(Turn.id) == NextState.turn_id)
        .where(Turn.session_id == session_id, NextState.believed == False)  # noqa: E712 - SQL
    ).all()
    turn_ids = []
    for row in rows:
        if is_synthetic(row.text) is not None or row.withdrawn:
            continue
        row.believed = True
        session.add(row)
        turn_ids.append(row.turn_id)
    session.flush()
    for turn_id in turn_ids:
        _mark_observed(session, turn_id)
    conversation.settled = True
    if ended and conversation.ended_at is None:
        conversation.ended_at = utc_now()
    session.add(conversation)
    return list(dict.fromkeys(turn_ids))


def add_feedback(session: Session, turn_id: str, feedback_id: str, piece: Piece) -> None:
    """An explicit event or outcome reached this turn: it counts at once, also after training."""
    session.add(_row(turn_id, feedback_id, 0, piece, believed=True))
    session.flush()
    _mark_observed(session, turn_id)


def add_fixes(session: Session, fixed_by: str, source_id: str, hints: Mapping[str, str]) -> list[str]:
    """Turn `fixed_by` got right what calls of earlier turns got wrong, as the request of turn `source_id`
    shows; `hints` by the earlier turns' ids.

    Only those that still wait for a round, or for a verdict, are told: nothing was wrong with what was
    trained. The first fix of a turn is the one that counts. Returns those to which it is news.
    """
    # Locked, in the order of all who lock several, so that neither a claim nor an erasure comes in between.
    ids = (*hints, fixed_by, source_id)
    locked = select(Turn.id, Turn.state).where(col(Turn.id).in_(ids)).order_by(Turn.id).with_for_update()
    states = dict(session.exec(locked).all())
    told: list[str] = []
    if fixed_by not in states or source_id not in states:
        return told
    for turn_id, hint in hints.items():
        if states.get(turn_id) not in ("observed", "judged", "abstained"):
            continue
        rows = next_states(session, turn_id)
        if not any(row.kind == FIX for row in rows):
            piece = Piece("outcome", hint, FIX)
            session.add(_row(turn_id, source_id, _free_position(rows, source_id), piece, believed=True))
            told.append(turn_id)
    session.flush()
    for turn_id in told:
        _mark_observed(session, turn_id)
    return told


def withdraw_feedback(session: Session, feedback_id: str) -> list[str]:
    """Undo an event: its turns are judged again without it."""
    turn_ids = []
    for row in session.exec(select(NextState).where(NextState.source_id == feedback_id)).all():
        if not row.withdrawn:
            row.withdrawn, row.believed = True, False
            session.add(row)
            turn_ids.append(row.turn_id)
    session.flush()
    for turn_id in turn_ids:
        _mark_observed(session, turn_id)
    return turn_ids


def exclude(session: Session, turn_id: str, reason: str) -> None:
    """Never train this turn."""
    moved = move(
        session,
        update(Turn)
        .where(col(Turn.id) == turn_id, col(Turn.state).in_(("open", "observed", "judged", "abstained")))
        .values(state="excluded", excluded_reason=reason),
    )
    if not moved and session.get_one(Turn, turn_id).state != "excluded":
        raise Conflict("a turn in a round, or trained, cannot be excluded")


def next_states(session: Session, turn_id: str) -> Sequence[NextState]:
    """All pieces of a turn's next state, also those that do not count."""
    return session.exec(select(NextState).where(NextState.turn_id == turn_id)).all()


def _row(turn_id: str, source_id: str, position: int, piece: Piece, *, believed: bool) -> NextState:
    return NextState(
        id=new_id("next"),
        turn_id=turn_id,
        source_id=source_id,
        position=position,
        role=piece.role,
        text=piece.text,
        kind=piece.kind,
        value=piece.value,
        weight=piece.weight,
        believed=believed,
    )


def _free_position(rows: Sequence[NextState], source_id: str) -> int:
    return 1 + max((row.position for row in rows if row.source_id == source_id), default=-1)


def _mark_observed(session: Session, turn_id: str) -> None:
    # A claimed turn keeps its round; `observed_at > judged_at` sends it back when the round ends.
    session.execute(update(Turn).where(col(Turn.id) == turn_id).values(observed_at=utc_now()))
    session.execute(
        update(Turn)
        .where(col(Turn.id) == turn_id, col(Turn.state).in_(("open", "judged", "abstained", "trained")))
        .values(state="observed")
    )
