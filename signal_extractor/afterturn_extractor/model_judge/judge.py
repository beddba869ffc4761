"""The `openai` judge: m votes of a model behind any OpenAI-compatible URL.

A vote that cannot be read is a vote for none. A server that is away is no vote at all: the turn stays
observed and is judged when the server is back. So a failure never becomes a number.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Final

import openai
from openai.types.chat import ChatCompletion
from sqlmodel import Session
from structlog.stdlib import get_logger

from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.errors import AfterturnError, SettingsError
from afterturn_core.settings import Settings
from afterturn_extractor import hints, private, rules
from afterturn_extractor.evidence import Evidence, Judgement, Verdict
from afterturn_extractor.fusion import fuse
from afterturn_extractor.injection import speaks_to_judge
from afterturn_extractor.model_judge import ledger
from afterturn_extractor.model_judge.answer import SCHEMA, Answer, MalformedAnswer, read
from afterturn_extractor.model_judge.prompt import VERSION, Prompt, material, prompt
from afterturn_extractor.model_judge.votes import plurality

RETRIES: Final = 2  # the client's own: with jitter, and as long as `Retry-After` says
ANSWER_TOKENS: Final = 300
BASE: Final = "base"

log = get_logger(__name__)


class JudgeAway(AfterturnError):
    """The judge's server did not answer; the turn is judged once it does."""


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
        url = settings.judge_url.rstrip("/") or f"{settings.engine_urls[0]}/v1"
        key = settings.judge_api_key if settings.judge_url else settings.engine_api_key
        self._client = openai.OpenAI(
            base_url=url,
            api_key=key.get_secret_value() or "none",
            timeout=settings.judge_timeout_s,
            max_retries=RETRIES,
        )
        self._schema_works = True

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __call__(self, evidence: Evidence) -> Judgement:
        """The rules' reading and, where that cannot settle it, the plurality of the model's votes.

        Without budget the rules alone speak, flagged `judge_budget`.

        Raises:
            JudgeAway: the server cannot be reached, is overloaded or fails.
        """
        by_rules = rules.judge(evidence)
        if settled(evidence, by_rules):
            return by_rules
        if self._settings.masks("judge"):
            evidence = private.masked(evidence)
        votes = []
        for number in range(self._settings.judge_votes):
            vote = self._vote(evidence, number)
            if vote is None:
                return replace(by_rules, flags=by_rules.flags | {"judge_budget"})
            votes.append(vote)
        return fuse([by_rules, judgement(votes, by_rules, judged_by=f"{self._model}/{VERSION}")])

    def _vote(self, evidence: Evidence, number: int) -> Vote | None:
        """One vote, from before or asked for now; `None` if the budget does not allow to ask."""
        key = ledger.key_of(material(evidence), version=VERSION, model=self._model, vote=number)
        with self._database.read() as session:
            answer = ledger.kept(session, key)
            if answer is None and not self._may_ask(session, evidence.agent_id):
                log.warning("judge_budget_spent", agent=evidence.agent_id)
                return None
        if answer is not None:
            return Vote(answer)
        text, spent, why = self._ask(prompt(evidence, secrets.token_hex(16)), seed=number)
        try:
            answer = None if why else read(text)
        except MalformedAnswer as error:
            answer, why = None, f"unreadable answer: {error}"
        with self._database.write() as session:
            ledger.keep(
                session,
                key,
                answer,
                spent,
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

    def _ask(self, asked: Prompt, *, seed: int) -> tuple[str, ledger.Spent, str]:
        """The model's text, what it cost, and why there is no text (refused, cut off)."""
        try:
            completion = self._complete(asked, seed, schema=self._schema_works)
        except openai.BadRequestError as error:
            if "context length" in str(error):  # asked again, it would say so again
                return "", ledger.Spent(0, 0), "the evidence is longer than the judge can read"
            if not self._schema_works or "response_format" not in str(error):
                raise JudgeAway(f"the judge refuses the question: {error.message}") from error
            self._schema_works = False  # an older server: the prompt alone asks for JSON
            return self._ask(asked, seed=seed)
        except openai.APITimeoutError as error:
            raise JudgeAway(f"the judge did not answer in {self._settings.judge_timeout_s:g} s") from error
        except openai.OpenAIError as error:
            raise JudgeAway(f"the judge cannot be asked: {type(error).__name__}: {error}") from error
        usage = completion.usage
        spent = ledger.Spent(usage.prompt_tokens, usage.completion_tokens) if usage else ledger.Spent(0, 0)
        if not completion.choices:
            return "", spent, "no choices"
        choice = completion.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            return "", spent, "the judge refused"
        return choice.message.content or "", spent, "cut off" if choice.finish_reason == "length" else ""

    def _complete(self, asked: Prompt, seed: int, *, schema: bool) -> ChatCompletion:
        return self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "system", "content": asked.system}, {"role": "user", "content": asked.user}],
            temperature=self._settings.judge_temperature,
            max_tokens=ANSWER_TOKENS,
            seed=seed,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "vote", "schema": SCHEMA, "strict": True},
            }
            if schema
            else openai.omit,
        )


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
    only tool results did and they read plainly (an exit code, a test report, an error's shape) or show a
    fault of the environment.
    """
    roles = {part.role for part in evidence.next_state}
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


def _hint_texts(answers: list[Answer]) -> list[str]:
    """Without secrets and without what speaks to the judge."""
    return [hints.hint_text(text) for answer in answers for text in answer.hints if not speaks_to_judge(text)]
