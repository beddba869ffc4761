"""Erasing turns: the rows, what only they refer to, and what was concluded from them.

A later turn of the conversation carries an earlier one's words in its prompt, so erasing a turn erases
every turn that descends from it. What a turn's request told about the turn before it is erased too, with the
signals that were drawn from it. Adapters that learned from any of this are tainted (`lifecycle.taint`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import CursorResult, and_, delete, exists, or_, update
from sqlmodel import Session, col, select

from .history import load_prompt, store_prompt
from .lifecycle import taint, take_back_evidence
from .models import (
    Content,
    Conversation,
    Feedback,
    HistoryNode,
    JudgeCall,
    NextState,
    OriginalRequest,
    RoundTurn,
    Signal,
    Training,
    Turn,
)

BATCH = 200  # turns in one transaction, so that nobody waits long for the database


@dataclass
class Erasure:
    """What was erased; the numbers count rows."""

    turns: int = 0
    sessions: int = 0
    feedback: int = 0
    messages: int = 0
    tainted: list[str] = field(default_factory=list)

    def add(self, other: "Erasure") -> None:
        """Take in what a further transaction erased."""
        self.turns += other.turns
        self.sessions += other.sessions
        self.feedback += other.feedback
        self.messages += other.messages
        self.tainted += other.tainted


def with_descendants(session: Session, turn_ids: Sequence[str]) -> list[str]:
    """These turns, the other choices of their requests and all that go on from them, the newest first: a
    batch of the list leaves nothing behind that refers to it."""
    found = set(turn_ids)
    edge = list(found)
    while edge:
        below: list[str] = []
        for part in _parts(edge):
            children = select(Turn.id).where(
                or_(
                    col(Turn.parent_id).in_(part),
                    col(Turn.prompt_base_id).in_(part),
                    and_(col(Turn.attempt_of).in_(part), col(Turn.choice_index) > 0),
                )
            )
            below += [turn_id for turn_id in session.exec(children).all() if turn_id not in found]
        edge = list(dict.fromkeys(below))
        found.update(edge)
    return sorted(found, reverse=True)


def erase_turns(session: Session, turn_ids: Sequence[str]) -> Erasure:
    """Erase at most `BATCH` turns, none of which another turn descends from."""
    assert len(turn_ids) <= BATCH
    if session.connection().dialect.name == "sqlite":
        session.connection().exec_driver_sql("PRAGMA secure_delete = ON")  # what is erased is overwritten
    erased = Erasure()
    about = col(Feedback.turn_id).in_(turn_ids)
    events = list(session.exec(select(Feedback.id).where(about)).all())
    told = list(
        session.exec(
            select(NextState.turn_id)
            .where(
                or_(*(col(NextState.source_id).in_(part) for part in _parts([*turn_ids, *events]))),
                col(NextState.turn_id).not_in(turn_ids),
            )
            .distinct()
        ).all()
    )
    erased.tainted = [adapter.name for adapter in taint(session, [*turn_ids, *told])]
    _hold(session, [*turn_ids, *told])
    erased.tainted += [adapter.name for adapter in taint(session, [*turn_ids, *told])]  # claimed in between
    for part in _parts([*turn_ids, *events]):
        session.execute(delete(NextState).where(col(NextState.source_id).in_(part)))
    session.execute(delete(NextState).where(col(NextState.turn_id).in_(turn_ids)))
    session.execute(delete(Feedback).where(about))
    erased.feedback = len(events)
    forget_signals(session, [*turn_ids, *told])
    # What a judge model said of them quotes what is erased; what it cost is still counted.
    session.execute(update(JudgeCall).where(col(JudgeCall.turn_id).in_(told)).values(answer=None))
    take_back_evidence(session, told)
    erased.messages = remove_rows(session, turn_ids)
    erased.turns = len(turn_ids)
    return erased


def _hold(session: Session, turn_ids: Sequence[str]) -> None:
    """Keep rounds from claiming these turns until the transaction ends (PostgreSQL; SQLite has one writer).

    Not before the rounds that have them are asked to stop: a round that ends locks itself, then its turns.
    """
    for part in _parts(sorted(turn_ids)):
        session.exec(select(Turn.id).where(col(Turn.id).in_(part)).order_by(Turn.id).with_for_update()).all()


def erase_empty_sessions(session: Session, session_ids: Iterable[str]) -> int:
    """Erase those of these sessions that have no turns left; returns how many."""
    count = 0
    for part in _parts(list(session_ids)):
        used = select(Turn.session_id).where(col(Turn.session_id).in_(part))
        empty = set(part) - set(session.exec(used).all())
        session.execute(delete(Feedback).where(col(Feedback.session_id).in_(empty)))
        session.execute(delete(Conversation).where(col(Conversation.id).in_(empty)))
        count += len(empty)
    return count


def forget_signals(session: Session, turn_ids: Sequence[str]) -> None:
    """Delete the signals of turns, and the notes of which round used them."""
    for table in (Training, RoundTurn, Signal):
        session.execute(delete(table).where(col(table.turn_id).in_(turn_ids)))


def remove_rows(session: Session, turn_ids: Sequence[str]) -> int:
    """Delete turns, then the messages and token ids that only they had; returns how many messages."""
    turns = session.exec(select(Turn).where(col(Turn.id).in_(turn_ids))).all()
    originals = session.exec(select(OriginalRequest).where(col(OriginalRequest.turn_id).in_(turn_ids))).all()
    chains = [turn.history_digest for turn in turns] + [turn.prompt_head for turn in turns]
    chains += [row.items_digest for row in originals]
    contents = [turn.reply_digest for turn in turns] + [turn.tools_digest for turn in turns]
    contents += [row.fields_digest for row in originals]
    _stand_alone(session, turn_ids)
    session.execute(delete(OriginalRequest).where(col(OriginalRequest.turn_id).in_(turn_ids)))
    for name in (Turn.parent_id, Turn.attempt_of, Turn.prompt_base_id):
        session.execute(update(Turn).where(col(name).in_(turn_ids)).values({name: None}))
    session.execute(delete(Turn).where(col(Turn.id).in_(turn_ids)))
    for digest in {digest for digest in chains if digest is not None}:
        contents += _remove_chain(session, digest)
    return _remove_contents(session, list({digest for digest in contents if digest is not None}))


def _stand_alone(session: Session, turn_ids: Sequence[str]) -> None:
    """Give turns that stay their whole prompt, where it was kept as a difference to one that goes."""
    leaning = select(Turn).where(col(Turn.prompt_base_id).in_(turn_ids), col(Turn.id).not_in(turn_ids))
    for turn in session.exec(leaning).all():
        store_prompt(session, turn, load_prompt(session, turn), None)
        session.add(turn)
    session.flush()


def _remove_chain(session: Session, digest: str) -> list[str]:
    """Remove nodes from the end of a chain as far as nobody else uses them; returns their contents."""
    contents: list[str] = []
    at: str | None = digest
    while at is not None:
        node = session.get(HistoryNode, at)
        if node is None or _node_is_used(session, at):
            break
        contents.append(node.content_digest)
        at = node.previous
        session.delete(node)
        session.flush()
    return contents


def _node_is_used(session: Session, digest: str) -> bool:
    users = (
        select(Turn.id).where(or_(col(Turn.history_digest) == digest, col(Turn.prompt_head) == digest)),
        select(HistoryNode.digest).where(HistoryNode.previous == digest),
        select(OriginalRequest.turn_id).where(OriginalRequest.items_digest == digest),
    )
    return any(session.exec(user.limit(1)).first() is not None for user in users)


def _remove_contents(session: Session, digests: Sequence[str]) -> int:
    """Remove those of these messages that nobody uses any more; returns how many that are."""
    used = or_(
        exists().where(col(HistoryNode.content_digest) == col(Content.digest)),
        exists().where(col(Turn.reply_digest) == col(Content.digest)),
        exists().where(col(Turn.tools_digest) == col(Content.digest)),
        exists().where(col(OriginalRequest.fields_digest) == col(Content.digest)),
    )
    count = 0
    for part in _parts(digests):
        removed = session.execute(
            delete(Content).where(col(Content.digest).in_(part), ~used),
            execution_options={"synchronize_session": False},  # nobody holds a message as an object here
        )
        assert isinstance(removed, CursorResult)
        count += removed.rowcount
    return count


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
