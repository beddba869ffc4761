"""What must hold afterwards, read from the database and the disk; every violation is one line."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, func, select

from afterturn_core.database import Database
from afterturn_core.errors import AdapterError
from afterturn_core.history import unpack_ids
from afterturn_core.models import (
    RUNNING_ROUNDS,
    Adapter,
    Agent,
    Feedback,
    NextState,
    Round,
    RoundTurn,
    Signal,
    Training,
    Turn,
)
from afterturn_trainer.adapter_folder import MOMENTS, REJECTED, verify
from bench.kills.talk import AcknowledgedFeedback, AcknowledgedTurn


@dataclass(frozen=True)
class Counts:
    """How much of everything there is."""

    turns: dict[str, int]
    signals: int
    feedback: int
    rounds: dict[str, int]
    adapters: dict[str, int]
    trainings: int


def count(database: Database) -> Counts:
    """Count rows, by state where they have one."""
    with database.read() as session:
        return Counts(
            turns=_by_state(session, Turn),
            signals=session.exec(select(func.count()).select_from(Signal)).one(),
            feedback=session.exec(select(func.count()).select_from(Feedback)).one(),
            rounds=_by_state(session, Round),
            adapters=_by_state(session, Adapter),
            trainings=session.exec(select(func.count()).select_from(Training)).one(),
        )


def restless(database: Database) -> str:
    """What still has to happen by itself before everything is quiet; empty if nothing has to."""
    counts = count(database)
    left = [f"{counts.rounds[state]} rounds {state}" for state in RUNNING_ROUNDS if counts.rounds.get(state)]
    if counts.turns.get("observed"):
        left.append(f"{counts.turns['observed']} turns wait for a verdict")
    return ", ".join(left)


def lost(
    database: Database, turns: Sequence[AcknowledgedTurn], feedback: Sequence[AcknowledgedFeedback]
) -> list[str]:
    """Acknowledged turns and feedback that are not there as they were acknowledged."""
    found: list[str] = []
    with database.read() as session:
        rows = {
            row.id: row
            for row in session.exec(select(Turn.id, Turn.token_ids, Turn.logprobs, Turn.adapter)).all()
        }
        for turn in turns:
            row = rows.get(turn.id)
            if row is None:
                found.append(f"turn {turn.id} was acknowledged and is gone")
            elif not turn.token_ids or tuple(unpack_ids(row.token_ids)) != turn.token_ids:
                found.append(f"turn {turn.id} has other token ids than its client was sent")
            elif row.adapter != turn.adapter:
                found.append(f"turn {turn.id} says {row.adapter}, its client was told {turn.adapter}")
        events = dict(session.exec(select(Feedback.id, Feedback.turn_id)).all())
        sources = set(session.exec(select(NextState.source_id).where(NextState.role == "feedback")).all())
        for event in feedback:
            if events.get(event.id) != event.turn_id or event.id not in sources:
                found.append(f"feedback {event.id} was acknowledged and is gone")
    return found


def trained_wrongly(database: Database) -> list[str]:
    """Signals in two published rounds, turns and rounds that hang, trained turns that no round trained."""
    found: list[str] = []
    with database.read() as session:
        published = select(Round.id).where(Round.state == "published")
        used = session.exec(select(RoundTurn.signal_id).where(col(RoundTurn.round_id).in_(published))).all()
        found += [f"signal {name} is in {n} published rounds" for name, n in Counter(used).items() if n > 1]
        trainings = session.exec(select(Training.signal_id)).all()
        if Counter(trainings) != Counter(used):
            found.append(f"{len(trainings)} signals are marked trained, published rounds used {len(used)}")
        for row in session.exec(select(Round).where(col(Round.state).in_(RUNNING_ROUNDS))).all():
            found.append(f"round {row.id} hangs in {row.state}")
        for turn_id in session.exec(select(Turn.id).where(Turn.state == "claimed")).all():
            found.append(f"turn {turn_id} hangs in claimed")
        trained = session.exec(
            select(Turn.id).where(Turn.state == "trained", col(Turn.id).not_in(select(Training.turn_id)))
        ).all()
        found += [f"turn {turn_id} is trained, but no round says so" for turn_id in trained]
    return found


def served_wrongly(database: Database, adapter_root: Path, agent_name: str) -> list[str]:
    """A live adapter that is not the newest published one, damaged folders, and folders nobody needs."""
    found: list[str] = []
    with database.read() as session:
        agent = session.exec(select(Agent).where(Agent.name == agent_name)).one()
        adapters = session.exec(
            select(Adapter).where(Adapter.agent_id == agent.id).order_by(col(Adapter.version))
        ).all()
    published = [adapter for adapter in adapters if adapter.state == "published"]
    newest = published[-1] if published else None
    if agent.live_adapter_id != (None if newest is None else newest.id):
        found.append(f"the newest published adapter {newest and newest.name} is not live")
    parent: str | None = None
    for adapter in (each for each in adapters if each.state in ("published", "retired")):
        if adapter.parent_id != parent:
            found.append(f"{adapter.name} does not continue the adapter published before it")
        parent = adapter.id
    for adapter in published:
        try:
            if verify(Path(str(adapter.path))).sha256 != adapter.sha256:
                found.append(f"{adapter.name} has other weights than were published")
        except AdapterError as error:
            found.append(f"{adapter.name}: {error.message}")
    found += [f"{a.name} is still a candidate" for a in adapters if a.state == "candidate"]
    needed = {Path(str(adapter.path)).name for adapter in published}
    return found + _left_over(adapter_root / agent_name, needed, None if newest is None else newest.path)


def _left_over(folder: Path, needed: set[str], live: str | None) -> list[str]:
    if not folder.is_dir():
        return []
    extra = sorted({each.name for each in folder.iterdir()} - needed - {REJECTED})
    found = [f"{name} was left in the adapters' folder" for name in extra]
    for path in folder.glob(f"v*/{MOMENTS}"):
        if str(path.parent) != live:
            found.append(f"{path.parent.name} keeps the optimiser's moments, and is not live")
    return found


def _by_state(session: Session, table: type[Turn] | type[Round] | type[Adapter]) -> dict[str, int]:
    return dict(session.exec(select(table.state, func.count()).group_by(table.state)).all())
