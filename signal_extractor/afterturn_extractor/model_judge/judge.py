"""The `openai` judge: m votes of a model behind any OpenAI-compatible URL.

A vote that cannot be read is a vote for none. A server that is away is no vote at all: the turn stays
observed and is judged when the server is back. So a failure never becomes a number.
"""

import secrets
import time
from dataclasses import dataclass, replace
from typing import Final

from sqlmodel import Session
from structlog.stdlib import get_logger

from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.errors import SettingsError
from afterturn_core.settings import Settings
from afterturn_extractor import hints, private, rules
from afterturn_extractor.evidence import Evidence, Judgement, Verdict
from afterturn_extractor.folding import clean
from afterturn_extractor.fusion import fuse
from afterturn_extractor.injection import speaks_to_judge
from afterturn_extractor.model_judge import ledger
from afterturn_extractor.model_judge.answer import Answer, MalformedAnswer, read
from afterturn_extractor.model_judge.prompt import VERSION, material, prompt
from afterturn_extractor.model_judge.server import TRIES, WAITED_S, JudgeAway, JudgeServer
from afterturn_extractor.model_judge.votes import plurality
from afterturn_extractor.rules import SEARCHED_AT_MOST

BASE: Final = "base"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Vote:
    """One answer, or why there is none."""

    answer: Answer | None
    why: str = ""


class ModelJudge:
    """Judges with a model. Thread-safe; each call opens its own short transactions, none while it waits."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Raises SettingsError for a model that must not judge."""
        self._settings = settings
        self._database = database
        self._model = judge_model(settings)
        self._server = JudgeServer(settings, self._model)
        # Votes are kept: a judgement that takes long goes on from there, before the task's time is over.
        self._longest_s = settings.task_time_limit_s - settings.judge_timeout_s - TRIES * WAITED_S
        if self._longest_s <= 0:
            raise SettingsError(
                f"AFTERTURN_JUDGE_TIMEOUT_S: {settings.judge_timeout_s:g} s do not fit into "
                f"AFTERTURN_TASK_TIME_LIMIT_S, {settings.task_time_limit_s:g} s"
            )

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def came_back(self) -> bool:
        """Whether the server answered after an outage; true once for each."""
        return self._server.rest.came_back()

    def __call__(self, evidence: Evidence) -> Judgement:
        """The rules' reading where it settles the turn, else the plurality of the model's votes; in doubt
        none, with the hints that the user's own words give.

        Without budget the rules alone speak, flagged `judge_budget`.

        Raises:
            JudgeAway: the server cannot be reached, is overloaded, fails, or is slow: the votes so far
                are kept.
        """
        by_rules = rules.judge(evidence)
        if settled(evidence, by_rules):
            return by_rules
        if self._settings.masks("judge"):
            evidence = private.masked(evidence)
        votes: list[Vote] = []
        begun = time.monotonic()
        for number in range(self._settings.judge_votes):
            if votes and time.monotonic() - begun > self._longest_s:
                raise JudgeAway(f"the judge is slow: {len(votes)} votes so far")
            vote = self._vote(evidence, number)
            if vote is None:
                return replace(by_rules, flags=by_rules.flags | {"judge_budget"})
            votes.append(vote)
        if _claimed(evidence):
            by_rules = replace(by_rules, flags=by_rules.flags | {"injection"})
        by_model = judgement(votes, by_rules, judged_by=f"{self._model}/{VERSION}")
        fused = fuse([by_rules, by_model])
        if by_model.verdict is None:
            # The model was in doubt, or gave nothing to read: what the rules see does not outweigh that.
            return replace(
                fused, verdict=None, source="judge", votes=by_model.votes, rationale=by_model.rationale
            )
        return fused

    def _vote(self, evidence: Evidence, number: int) -> Vote | None:
        """One vote, from before or asked for now; `None` if the budget does not allow to ask."""
        key = ledger.key_of(material(evidence), version=VERSION, model=self._model, vote=number)
        with self._database.read() as session:
            kept = ledger.kept(session, key)
            if kept is None and not self._may_ask(session, evidence.agent_id):
                log.warning("judge_budget_spent", agent=evidence.agent_id)
                return None
        if kept is not None:
            return Vote(kept.answer, "" if kept.answer else "an answer that could not be read")
        said = self._server.ask(prompt(evidence, secrets.token_hex(16)), seed=number)
        why = said.why
        try:
            answer = None if why else read(said.text)
        except MalformedAnswer as error:
            answer, why = None, f"unreadable answer: {error}"
        with self._database.write() as session:
            ledger.keep(
                session,
                key,
                answer,
                said.spent,
                agent_id=evidence.agent_id,
                turn_id=evidence.turn_id,
                model=self._model,
            )
        return Vote(answer, why)

    def _may_ask(self, session: Session, agent_id: str | None) -> bool:
        budget = self._settings.judge_tokens_per_day
        if not budget or agent_id is None:
            return True
        return ledger.spent_since(session, agent_id, ledger.day_began(utc_now())) < budget


def judge_model(settings: Settings) -> str:
    """The model that judges: the un-adapted base by default.

    Raises:
        SettingsError: an adapter, which would judge itself, or none named for another server.
    """
    if not settings.judge_model and settings.judge_url:
        raise SettingsError("AFTERTURN_JUDGE_MODEL: name the model at AFTERTURN_JUDGE_URL")
    if "@" in settings.judge_model and not settings.judge_url:
        raise SettingsError(
            f"AFTERTURN_JUDGE_MODEL: {settings.judge_model} is an adapter; what is trained must not "
            "judge itself. Use base, or another server's model with AFTERTURN_JUDGE_URL"
        )
    return settings.judge_model or BASE


def settled(evidence: Evidence, by_rules: Judgement) -> bool:
    """Whether no model need be asked: explicit feedback or an outcome stands, nothing followed the turn, or
    only tool results did and they read plainly (an exit code, a test report, an error's shape, an HTTP
    status) or show a fault of the environment, or a tool call breaks its schema and nobody praises it.
    """
    roles = {part.role for part in evidence.next_state}
    if "schema" in by_rules.flags and by_rules.verdict == -1:
        return True
    if roles & {"feedback", "outcome"} or not roles:
        return True
    return roles == {"tool"} and (by_rules.verdict is not None or "environment" in by_rules.flags)


def judgement(votes: list[Vote], by_rules: Judgement, *, judged_by: str) -> Judgement:
    """The plurality of the votes, with the hints of those that agree with it.

    Text that speaks to the judge makes a verdict worth nothing unless the rules, which do not follow orders,
    find the same one.
    """
    cast: tuple[Verdict | None, ...] = tuple(vote.answer.verdict if vote.answer else None for vote in votes)
    verdict = plurality(cast)
    agreeing = [vote.answer for vote in votes if vote.answer is not None and vote.answer.verdict == verdict]
    addressed = "injection" in by_rules.flags or any(vote.answer and vote.answer.addressed for vote in votes)
    reasons = [answer.reason for answer in agreeing] or [vote.why for vote in votes if vote.why]
    flags = frozenset({"injection"}) if addressed else frozenset[str]()
    if addressed and verdict != by_rules.verdict:
        return Judgement(None, "judge", cast, "the judged text speaks to the judge", (), flags, judged_by)
    told = () if verdict == 1 else hints.ranked(_hint_texts(agreeing), "judge")
    return Judgement(verdict, "judge", cast, next(iter(reasons), ""), told, flags, judged_by)


def _claimed(evidence: Evidence) -> bool:
    """Whether agent or tool wrote down a verdict: the rules read past that, a model may follow it."""
    tools = (part.text for part in evidence.next_state if part.role == "tool")
    return any(speaks_to_judge(clean(text[:SEARCHED_AT_MOST])) for text in (evidence.reply_text, *tools))


def _hint_texts(answers: list[Answer]) -> list[str]:
    """Without secrets and without what speaks to the judge."""
    return [hints.hint_text(text) for answer in answers for text in answer.hints if not speaks_to_judge(text)]
