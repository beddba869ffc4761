"""A round's row and its turns, read from the database into plain values; nothing is changed here."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, select

from afterturn_core.errors import RoundFailed
from afterturn_core.history import load_history, load_prompt, unpack_ids, unpack_logprobs
from afterturn_core.models import Adapter, Agent, Round, RoundTurn, Signal, Turn
from afterturn_core.round_plan import SOURCE_SHARE
from afterturn_core.sources import sources_of
from afterturn_trainer.sample import Ids
from afterturn_trainer.teacher_prompt import Told, last_told

HELD_OUT_TURNS = 64  # the most recent ones; each costs two forward passes a round
EARLIER_VERDICTS = 4096  # the most recent ones; the baseline is made of far fewer


@dataclass(frozen=True)
class ParentAdapter:
    """The adapter a round starts from; `folder` holds its files."""

    id: str
    name: str
    version: int
    folder: Path
    sha256: str


@dataclass(frozen=True)
class LoadedTurn:
    """One turn with its signal.

    adapter: name of the adapter that sampled it, `base` for none; folder: where that adapter lies, None for
    the base model or when its files are gone. versions_back: distance along the lineage of the round's
    parent, None when the adapter is not an ancestor (the agent was rolled back since). weight: of the
    verdict, not of the hints.
    """

    turn_id: str
    adapter: str
    folder: Path | None
    versions_back: int | None
    model_hash: str
    prompt_ids: Ids
    reply_ids: Ids
    logprobs: tuple[float, ...]
    told: Told | None
    verdict: int | None
    hints: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class RoundInput:
    """Everything a round reads: its turns, the agent's held-out turns, and the +-1 verdicts given before
    (oldest first); `pinned` is the adapter that must stay served. `sources` says from whom how many of the
    turns' signals come, `source_share` how much of the round one of several may make up."""

    round_id: str
    agent_id: str
    agent: str
    objective: str
    settings: dict[str, object]
    parent: ParentAdapter | None
    turns: tuple[LoadedTurn, ...]
    held_out: tuple[LoadedTurn, ...]
    earlier_verdicts: tuple[int, ...]
    pinned: str | None
    sources: dict[str, int]
    source_share: float


def load_round(session: Session, round_id: str) -> RoundInput:
    """Read a claimed round.

    Raises:
        RoundFailed: the live adapter is not the round's parent any more, or the parent's files are gone.
    """
    row = session.get_one(Round, round_id)
    agent = session.get_one(Agent, row.agent_id)
    if agent.live_adapter_id != row.parent_adapter_id:
        raise RoundFailed("the live adapter changed before this round began")
    lineage = _lineage(session, row.parent_adapter_id)
    used = session.exec(
        select(Turn, Signal)
        .join(RoundTurn, col(RoundTurn.turn_id) == Turn.id)
        .join(Signal, col(Signal.id) == RoundTurn.signal_id)
        .where(RoundTurn.round_id == round_id)
        .order_by(Turn.id)
    ).all()
    held_out = session.exec(
        select(Turn, Signal)
        .join(Signal, (col(Signal.turn_id) == Turn.id) & (col(Signal.revision) == Turn.signal_revision))
        .where(
            Turn.agent_id == agent.id,
            Turn.held_out == True,  # noqa: E712 - SQL
            Turn.state == "judged",
            col(Signal.verdict).in_((-1, 1)),
        )
        .order_by(col(Turn.id).desc())
        .limit(HELD_OUT_TURNS)
    ).all()
    return RoundInput(
        round_id=round_id,
        agent_id=agent.id,
        agent=agent.name,
        objective=row.objective,
        settings=row.settings,
        parent=_parent(lineage),
        turns=tuple(_load(session, turn, signal, lineage) for turn, signal in used),
        held_out=tuple(_load(session, turn, signal, lineage) for turn, signal in reversed(held_out)),
        earlier_verdicts=_earlier_verdicts(session, row),
        pinned=None
        if agent.pinned_adapter_id is None
        else session.get_one(Adapter, agent.pinned_adapter_id).name,
        sources=dict(Counter(sources_of(session, [turn for turn, _ in used]).values())),
        source_share=float(row.settings.get(SOURCE_SHARE, 1.0)),
    )


def _lineage(session: Session, adapter_id: str | None) -> list[Adapter]:
    """The parent, its parent, … up to the base model."""
    chain: list[Adapter] = []
    while adapter_id is not None:
        chain.append(session.get_one(Adapter, adapter_id))
        adapter_id = chain[-1].parent_id
    return chain


def _parent(lineage: Sequence[Adapter]) -> ParentAdapter | None:
    if not lineage:
        return None
    live = lineage[0]
    if live.path is None or live.sha256 is None or not Path(live.path).is_dir():
        raise RoundFailed(f"the files of {live.name}, which this round would continue, are not there")
    return ParentAdapter(live.id, live.name, live.version, Path(live.path), live.sha256)


def _load(session: Session, turn: Turn, signal: Signal, lineage: Sequence[Adapter]) -> LoadedTurn:
    row = session.exec(
        select(Adapter).where(Adapter.agent_id == turn.agent_id, Adapter.name == turn.adapter)
    ).one_or_none()
    folder = None if row is None or row.path is None else Path(row.path)
    return LoadedTurn(
        turn_id=turn.id,
        adapter=turn.adapter,
        folder=folder if folder is not None and folder.is_dir() else None,
        versions_back=_versions_back(turn.adapter, [adapter.name for adapter in lineage]),
        model_hash=turn.model_hash,
        prompt_ids=tuple(load_prompt(session, turn)),
        reply_ids=tuple(unpack_ids(turn.token_ids)),
        logprobs=tuple(unpack_logprobs(turn.logprobs)),
        # A text completion's prompt is stored as a message and was none: nothing in it ends like one.
        told=None
        if turn.protocol == "completions"
        else last_told(load_history(session, turn.history_digest)),
        verdict=signal.verdict,
        hints=tuple(sorted({hint["text"] for hint in signal.hints if hint["text"].strip()}, key=_brief)),
        weight=signal.weight,
    )


def _brief(hint: str) -> tuple[int, str]:
    """Shortest first; equal lengths in a fixed order."""
    return len(hint), hint


def _versions_back(adapter: str, lineage: Sequence[str]) -> int | None:
    if adapter == "base":
        return len(lineage)
    return lineage.index(adapter) if adapter in lineage else None


def _earlier_verdicts(session: Session, row: Round) -> tuple[int, ...]:
    """The agent's latest +-1 verdicts before the round, its own left out, in the order they were given."""
    found = session.exec(
        select(Turn.id, Signal.verdict)
        .join(Signal, (col(Signal.turn_id) == Turn.id) & (col(Signal.revision) == Turn.signal_revision))
        .where(
            Turn.agent_id == row.agent_id,
            col(Signal.verdict).in_((-1, 1)),
            col(Turn.judged_at) <= row.created_at,
        )
        .order_by(col(Turn.judged_at).desc(), col(Turn.id).desc())
        .limit(EARLIER_VERDICTS + len(row.turn_ids))
    ).all()
    own = set(row.turn_ids)
    earlier = [verdict for turn_id, verdict in reversed(found) if turn_id not in own and verdict is not None]
    return tuple(earlier[-EARLIER_VERDICTS:])
