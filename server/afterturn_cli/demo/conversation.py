"""The talking side of the demo: people in lock-step who ask, look at the answer, and react."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from openai import APIError, OpenAI

from afterturn import Afterturn

from .persona import UNRELATED, Persona, Reaction, Reply
from .prompts import Question

MODEL = "default"
REPLY_TOKENS = 64
REACTION_TOKENS = 16  # what the agent says to a complaint is not looked at
TEMPERATURE = 0.5


@dataclass
class Tally:
    """Requests sent, and those that failed; counted from many threads at once."""

    requests: int = 0
    failed: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def count(self, *, requests: int = 0, failed: int = 0) -> None:
        """Count some more."""
        with self._lock:
            self.requests += requests
            self.failed += failed

    def add(self, other: "Tally") -> None:
        """Count another's requests too."""
        self.count(requests=other.requests, failed=other.failed)


@dataclass(frozen=True)
class Said:
    """One question, its answer's turn, and the person's reaction."""

    question: Question
    turn_id: str
    reply: Reply
    reaction: Reaction


@dataclass(frozen=True)
class Script:
    """Who talks, and how: a placebo draws its sign at random and wishes for unrelated things."""

    persona: Persona
    placebo: bool
    seed: int

    def react(self, question: Question, reply: Reply, chance: random.Random) -> Reaction:
        """The next message of the person."""
        if not self.placebo:
            return self.persona.react(question, reply, chance)
        if chance.random() < 0.5:
            return Reaction(chance.choice(self.persona.praise), satisfied=True, hint=None)
        return UNRELATED.react(question, reply, chance)


def talk(
    client: Afterturn, script: Script, questions: Sequence[Question], round_number: int
) -> tuple[list[Said], Tally]:
    """Every question in a session of its own, all at the same time; each session is closed."""
    tally = Tally()

    def one(index: int) -> Said | None:
        seed = script.seed * 100_000 + round_number * 100 + index
        chance = random.Random(seed)
        try:
            with client.session(f"demo-{script.seed}-{round_number}-{index}", end_on_exit=False) as session:
                # A retried request would hide a failed one.
                openai = session.openai.with_options(max_retries=0)
                return _session(openai, script, questions[index], seed, chance, tally)
        except APIError:
            tally.count(failed=1)
            return None

    with ThreadPoolExecutor(len(questions)) as pool:
        said = list(pool.map(one, range(len(questions))))
    return [each for each in said if each is not None], tally


def _session(
    openai: OpenAI, script: Script, question: Question, seed: int, chance: random.Random, tally: Tally
) -> Said:
    tally.count(requests=1)
    raw = openai.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": question.text}],
        max_tokens=REPLY_TOKENS,
        temperature=TEMPERATURE,
        seed=seed,
    )
    choice = raw.parse().choices[0]
    reply = Reply(choice.message.content or "", choice.finish_reason)
    reaction = script.react(question, reply, chance)
    tally.count(requests=1)
    openai.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "user", "content": question.text},
            {"role": "assistant", "content": choice.message.content or ""},
            {"role": "user", "content": reaction.text},
        ],
        max_tokens=REACTION_TOKENS,
        temperature=TEMPERATURE,
        seed=seed + 50,
        extra_headers={"X-Session-Done": "1"},
    )
    return Said(question, raw.headers["x-turn-id"], reply, reaction)


def ask_held_out(
    openai: OpenAI, persona: Persona, questions: Sequence[Question], seed: int, at_once: int
) -> tuple[int, Tally]:
    """How many held-out answers please the person; the same seeds every time, nothing stored."""
    tally = Tally()

    def one(index: int) -> bool:
        tally.count(requests=1)
        try:
            choice = openai.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": questions[index].text}],
                max_tokens=REPLY_TOKENS,
                temperature=TEMPERATURE,
                seed=seed * 1000 + index,
                extra_headers={"X-Afterturn-Store": "off"},
            ).choices[0]
        except APIError:
            tally.count(failed=1)
            return False
        reply = Reply(choice.message.content or "", choice.finish_reason)
        return persona.problem(questions[index], reply) is None

    with ThreadPoolExecutor(at_once) as pool:
        return sum(pool.map(one, range(len(questions)))), tally
