"""The server that the judge model runs on: one question, one text, and what is done where it fails."""

import time
from dataclasses import dataclass
from typing import Final

import openai
from openai.types.chat import ChatCompletion
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from afterturn_core.errors import AfterturnError
from afterturn_core.settings import Settings
from afterturn_extractor.model_judge.answer import SCHEMA
from afterturn_extractor.model_judge.ledger import Spent
from afterturn_extractor.model_judge.prompt import Prompt
from afterturn_extractor.model_judge.rest import Rest, retry_after_s

TRIES: Final = 3
# A worker's thread waits this long for a server; longer than that the turn waits, and the thread works.
WAITED_S: Final = 5.0
ANSWER_TOKENS: Final = 300
REFUSALS: Final = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})


class JudgeAway(AfterturnError):
    """The judge's server did not answer; the turn is judged once it does."""


@dataclass(frozen=True, slots=True)
class Said:
    """The model's text and its cost, or why there is no text to read."""

    text: str
    spent: Spent
    why: str = ""


class JudgeServer:
    """A model behind an OpenAI-compatible URL. Thread-safe."""

    def __init__(self, settings: Settings, model: str) -> None:
        url = settings.judge_url.rstrip("/") or f"{settings.engine_urls[0]}/v1"
        key = settings.judge_api_key if settings.judge_url else settings.engine_api_key
        self._settings = settings
        self._model = model
        # Tries are counted here and not in the client: what one thread was told, all others keep to.
        self._client = openai.OpenAI(
            base_url=url,
            api_key=key.get_secret_value() or "none",
            timeout=settings.judge_timeout_s,
            max_retries=0,
        )
        self._schema_works = True
        self._failure = ""  # the last one, for those who are not let through because of it
        self.rest = Rest(trial_s=settings.judge_timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, asked: Prompt, *, seed: int) -> Said:
        """The model's text. Tried again where that can help: not after a time-out, which held the thread for
        long enough, and never before the moment that the server named.

        Raises:
            JudgeAway: it cannot be reached, is overloaded or fails, or rests for longer than is waited for.
        """
        tries = Retrying(retry=retry_if_exception(_passes), stop=stop_after_attempt(TRIES), reraise=True)
        try:
            return _said(tries(self._complete, asked, seed))
        except openai.BadRequestError as error:
            if error.code == "context_length_exceeded" or "context length" in str(error):
                why = "the evidence is longer than the judge can read"
                return Said("", Spent(0, 0), why)  # asked again, it would say so again
            if error.code in REFUSALS:
                return Said("", Spent(0, 0), "the judge refused")
            if not self._schema_works or "response_format" not in str(error):
                raise JudgeAway(f"the judge refuses the question: {error.message}") from error
            self._schema_works = False  # an older server: the prompt alone asks for JSON
            return self.ask(asked, seed=seed)
        except openai.APITimeoutError as error:
            raise JudgeAway(f"the judge did not answer in {self._settings.judge_timeout_s:g} s") from error
        except openai.OpenAIError as error:
            raise JudgeAway(f"the judge cannot be asked: {_told(error)}") from error

    def _complete(self, asked: Prompt, seed: int) -> ChatCompletion:
        self._wait()
        try:
            completion = self._client.chat.completions.create(
                model=self._model,
                messages=[
                    {"role": "system", "content": asked.system},
                    {"role": "user", "content": asked.user},
                ],
                temperature=self._settings.judge_temperature,
                max_tokens=ANSWER_TOKENS,
                seed=seed,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "vote", "schema": SCHEMA, "strict": True},
                }
                if self._schema_works
                else openai.omit,
            )
        except openai.BadRequestError:
            self.rest.answered()  # it is there, and says something about this question
            raise
        except openai.APIStatusError as error:
            self._failure = _told(error)
            self.rest.failed(retry_after_s(error.response.headers))
            raise
        except openai.OpenAIError as error:
            self._failure = _told(error)
            self.rest.failed()
            raise
        self.rest.answered()
        return completion

    def _wait(self) -> None:
        waited_s = 0.0
        while left_s := self.rest.ask():
            if waited_s + left_s > WAITED_S:
                raise JudgeAway(f"the judge cannot be asked for another {left_s:.0f} s: {self._failure}")
            time.sleep(left_s)
            waited_s += left_s


def _told(error: openai.OpenAIError) -> str:
    return f"{type(error).__name__}: {error}"


def _passes(error: BaseException) -> bool:
    """Whether trying again soon can help."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError) and not isinstance(error, openai.APITimeoutError)


def _said(completion: ChatCompletion) -> Said:
    usage = completion.usage
    spent = Spent(usage.prompt_tokens, usage.completion_tokens) if usage else Spent(0, 0)
    if not completion.choices:
        return Said("", spent, "no choices")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return Said("", spent, "the judge refused")
    return Said(choice.message.content or "", spent, "cut off" if choice.finish_reason == "length" else "")
