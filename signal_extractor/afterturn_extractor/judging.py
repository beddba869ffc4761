"""One turn's way from its evidence to a stored signal."""

from collections.abc import Callable
from dataclasses import replace

from sqlmodel import Session, select
from structlog.stdlib import get_logger

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import NotFound
from afterturn_core.lifecycle import SignalDraft
from afterturn_core.masking import EXCLUDED
from afterturn_core.models import FIX, Turn
from afterturn_core.settings import Settings
from afterturn_extractor import fusion, private, rules
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.load_calls import load_fixes
from afterturn_extractor.load_evidence import load_case
from afterturn_extractor.model_judge.judge import ModelJudge

# A judge that fails raises; one that knows nothing answers with no verdict.
Judge = Callable[[Evidence], Judgement]

log = get_logger(__name__)


def judge_of(settings: Settings, database: Database) -> Judge | None:
    """The judge that the settings name; `None` for `off`, when only feedback and outcomes count.

    Raises:
        SettingsError: a model that must not judge.
    """
    match settings.judge:
        case "rules":
            return rules.judge
        case "openai":
            return ModelJudge(settings, database)
        case "off":
            return None


def weigh(evidence: Evidence, judge: Judge | None) -> Judgement:
    """Everything that speaks about a turn, as one judgement."""
    fixes = [part for part in evidence.next_state if part.kind == FIX]
    # How a call was put right later is no reaction to the turn.
    reactions = tuple(part for part in evidence.next_state if part.kind != FIX)
    parts = [fusion.from_feedback(part) for part in reactions if part.role in ("feedback", "outcome")]
    if judge is not None:
        parts.append(judge(replace(evidence, next_state=reactions)))
    fused = fusion.fuse(parts) if parts else Judgement(None, "explicit", rationale="no feedback")
    return fusion.with_fixes(fused, fixes)


def judge_turn(
    database: Database, judge: Judge | None, turn_id: str, *, without_secrets: bool = False
) -> str | None:
    """Judge an observed turn and store the signal; doing it again changes nothing.

    Earlier turns whose failed calls it put right are told so and judged again.

    `without_secrets`: a turn that said a secret, or heard one, is excluded from training.

    Returns the turn's state afterwards, `None` if it did not wait for a verdict (any more).
    """
    try:
        with database.read() as session:
            # What is committed after this look changes the stamp, and the turn is judged again.
            case = load_case(session, turn_id)
            told = load_fixes(session, turn_id, case.evidence) if case.state == "observed" else None
        if case.state != "observed":
            return None  # a message that came twice: a judge may cost money
        if without_secrets and private.teaches_a_secret(case.evidence):
            with database.write() as session:
                lifecycle.exclude(session, turn_id, EXCLUDED)
            return "excluded"
        judgement, word = weigh(case.evidence, judge), case.word
        if word is not None:
            judgement = replace(
                judgement,
                verdict=word.verdict,
                source="explicit",
                rationale="set by an administrator",
                weight=1.0,
            )
        with database.write() as session:
            put_right = []
            if told is not None:
                put_right = lifecycle.add_fixes(session, turn_id, told.source_id, told.hints)
            signal = lifecycle.save_signal(session, turn_id, _draft(judgement), evidence_of=case.observed_at)
            state = None if signal is None else _state(session, turn_id)
    except NotFound:
        log.info("turn_gone", turn=turn_id)
        return None
    if state is not None:
        log.info("judged", turn=turn_id, state=state, verdict=judgement.verdict, source=judgement.source)
    for earlier in put_right:
        judge_turn(database, judge, earlier, without_secrets=without_secrets)
    return state


def _state(session: Session, turn_id: str) -> str:
    return session.exec(select(Turn.state).where(Turn.id == turn_id)).one()


def _draft(judgement: Judgement) -> SignalDraft:
    return SignalDraft(
        verdict=judgement.verdict,
        source=judgement.source,
        votes=judgement.votes,
        rationale=judgement.rationale,
        hints=tuple((hint.text, hint.source) for hint in judgement.hints),
        flags=tuple(sorted(judgement.flags - {"disagreement"})),
        disagreement="disagreement" in judgement.flags,
        judged_by=judgement.judged_by,
        weight=judgement.weight,
    )
