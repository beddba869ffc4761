"""What a judge made of a turn: observed → judged | abstained | trained."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import load_only
from sqlmodel import Session, col, select

from ..columns import attribute, utc_now
from ..errors import NotFound
from ..ids import new_id
from ..models import Signal, Training, Turn
from .adapters import mark_adapters
from .evidence import Piece, add_feedback, next_states

ADMIN_WORD = "admin"  # kind of the piece that holds an administrator's verdict
# All that a verdict reads and changes of a turn; the rest of the row, its token ids above all, is long.
_MOVED = (
    attribute(Turn.agent_id),
    attribute(Turn.state),
    attribute(Turn.signal_revision),
    attribute(Turn.observed_at),
    attribute(Turn.judged_at),
    attribute(Turn.claimable_at),
)


@dataclass(frozen=True)
class SignalDraft:
    """What a judge made of a turn; `verdict` is None when it knows nothing. `weight` is the verdict's in
    training, above 0 and at most 1."""

    verdict: int | None
    source: str
    votes: tuple[int | None, ...] = ()
    rationale: str = ""
    hints: tuple[tuple[str, str], ...] = ()  # (text, source)
    flags: tuple[str, ...] = ()
    disagreement: bool = False
    judged_by: str | None = None  # model and prompt version, if a model judged
    weight: float = 1.0


def save_signal(
    session: Session, turn_id: str, draft: SignalDraft, *, evidence_of: datetime | None
) -> Signal | None:
    """Store a new signal revision: observed → judged, or abstained without ±1 and without a hint.

    A trained turn whose new signal says what it was trained on stays trained: no round uses it again.
    `evidence_of` is the turn's `observed_at` as it was when its evidence was read: another stamp by now
    means that evidence came later, so the turn stays observed and is judged once more. Clocks of several
    machines are never compared. Returns `None` if the turn is not waiting any more.
    """
    turn = session.exec(
        select(Turn).where(Turn.id == turn_id).options(load_only(*_MOVED)).with_for_update()
    ).one_or_none()
    if turn is None:
        raise NotFound(f"no turn {turn_id}")
    if turn.state != "observed":
        return None
    signal = Signal(
        id=new_id("signal"),
        agent_id=turn.agent_id,
        turn_id=turn_id,
        revision=turn.signal_revision + 1,
        verdict=draft.verdict,
        weight=draft.weight,
        source=draft.source,
        votes=list(draft.votes),
        rationale=draft.rationale,
        hints=[{"text": text, "source": source} for text, source in draft.hints],
        flags=list(draft.flags),
        disagreement=draft.disagreement,
        judged_by=draft.judged_by,
    )
    session.add(signal)
    session.flush()
    # What was never judged was never trained.
    previous = _trained_signal(session, turn_id) if turn.signal_revision else None
    turn.signal_revision = signal.revision
    late = turn.observed_at != evidence_of
    turn.judged_at = evidence_of or utc_now()
    same = previous is not None and (previous.verdict, previous.hints) == (signal.verdict, signal.hints)
    if not late:
        judged = "judged" if draft.verdict in (-1, 1) or draft.hints else "abstained"
        turn.state = "trained" if same else judged
    turn.claimable_at = None
    session.add(turn)
    session.flush()
    if previous is not None and _contradicts(signal, previous):
        for row in session.exec(select(Training).where(Training.turn_id == turn_id)).all():
            mark_adapters(session, row.round_id, "stale")
    return signal


def override_verdict(session: Session, turn_id: str, verdict: int | None) -> Signal | None:
    """An admin's word, in place of any earlier one: stored as explicit feedback of its own kind would be.

    The hints of the signal there is are kept. Returns `None` for a turn in a round: it is judged again, with
    this word, when the round ends.
    """
    for row in next_states(session, turn_id):
        if row.kind == ADMIN_WORD and not row.withdrawn:
            row.withdrawn, row.believed = True, False
            session.add(row)
    value = None if verdict is None else float(verdict)
    add_feedback(session, turn_id, new_id("admin"), Piece("feedback", "", ADMIN_WORD, value))
    turn = session.get_one(Turn, turn_id, populate_existing=True)
    current = session.exec(
        select(Signal).where(Signal.turn_id == turn_id, Signal.revision == turn.signal_revision)
    ).one_or_none()
    hints = () if current is None else tuple((hint["text"], hint["source"]) for hint in current.hints)
    return save_signal(
        session,
        turn_id,
        SignalDraft(verdict, "explicit", (verdict,), "set by an administrator", hints),
        evidence_of=turn.observed_at,
    )


def _contradicts(signal: Signal, trained: Signal) -> bool:
    """Whether a signal takes back something that was trained: its verdict, or one of its hints."""
    return signal.verdict != trained.verdict or any(hint not in signal.hints for hint in trained.hints)


def _trained_signal(session: Session, turn_id: str) -> Signal | None:
    return session.exec(
        select(Signal)
        .join(Training, col(Training.signal_id) == Signal.id)
        .where(Signal.turn_id == turn_id)
        .order_by(col(Signal.revision).desc())
    ).first()
