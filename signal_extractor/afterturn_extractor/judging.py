"""One turn's way from its evidence to a stored signal."""

from collections.abc import Callable
from dataclasses import replace

from structlog.stdlib import get_logger

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import NotFound
from afterturn_core.lifecycle import SignalDraft
from afterturn_core.masking import EXCLUDED
from afterturn_core.models import Turn
from afterturn_core.settings import Settings
from afterturn_extractor import fusion, private, rules
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.load_evidence import admin_word, load_evidence
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
    parts = [
        fusion.from_feedback(part) for part in evidence.next_state if part.role in ("feedback", "outcome")
    ]
    if judge is not None:
        parts.append(judge(evidence))
    return fusion.fuse(parts) if parts else Judgement(None, "explicit", rationale="no feedback")


def judge_turn(
    database: Database, judge: Judge | None, turn_id: str, *, without_secrets: bool = False
) -> str | None:
    """Judge an observed turn and store the signal; doing it again changes nothing.

    `without_secrets`: a turn that said a secret, or heard one, is excluded from training.

    Returns the turn's state afterwards, `None` if it did not wait for a verdict (any more).
    """
    try:
        with database.read() as session:
            # Read before the evidence: what is committed in between changes the stamp, and is judged again.
            turn = session.get(Turn, turn_id)
            if turn is not None and turn.state != "observed":
                return None  # a message that came twice: a judge may cost money
            stamp = None if turn is None else turn.observed_at
            evidence = load_evidence(session, turn_id)
            word = admin_word(session, turn_id)
        if without_secrets and private.teaches_a_secret(evidence):
            with database.write() as session:
                lifecycle.exclude(session, turn_id, EXCLUDED)
            return "excluded"
        judgement = weigh(evidence, judge)
        if word is not None:
            judgement = replace(
                judgement, verdict=word.verdict, source="explicit", rationale="set by an administrator"
            )
        with database.write() as session:
            signal = lifecycle.save_signal(session, turn_id, _draft(judgement), evidence_of=stamp)
            state = None if signal is None else session.get_one(Turn, turn_id).state
    except NotFound:
        log.info("turn_gone", turn=turn_id)
        return None
    if state is not None:
        log.info("judged", turn=turn_id, state=state, verdict=judgement.verdict, source=judgement.source)
    return state


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
    )
