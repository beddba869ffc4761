"""Agent-sized conversations made of a number: long instructions, tools, thirty turns, tool results.

Each is made again from its number whenever it is needed, so a million turns need no memory. Token ids are
those of an invented tokenizer: one id a word, words as unevenly common as in real text.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Json = dict[str, Any]

AGENTS = 4
TURNS = 30  # of one conversation
INSTRUCTION_TOKENS = 12_000
VOCABULARY = 6_000
SENTENCES = 4_096
_FRAME = (151_644, 872, 198)  # what a chat template puts around each message


@dataclass(frozen=True)
class Step:
    """One turn: what the request carries beyond the turn before, the reply, and the ids of both.

    `returned` is the reply as the client sends it back: half of them add fields of their own.
    """

    asked: tuple[Json, ...]
    asked_ids: tuple[int, ...]
    reply: Json
    returned: Json
    reply_ids: tuple[int, ...]


@dataclass(frozen=True)
class Conversation:
    """All steps of one conversation of agent number `agent`."""

    number: int
    agent: int
    steps: tuple[Step, ...]

    def messages(self, upto: int, more: Sequence[Json] = ()) -> list[Json]:
        """The request of turn `upto`: the whole history again; `more` replaces what that turn asked."""
        messages: list[Json] = [instructions(self.agent)]
        for step in self.steps[:upto]:
            messages += [*step.asked, step.returned]
        return messages + list(more or self.steps[upto].asked)

    def prompt_ids(self, upto: int) -> list[int]:
        """The prompt of turn `upto` in token ids."""
        ids = list(instruction_ids(self.agent))
        for step in self.steps[:upto]:
            ids += [*step.asked_ids, *step.reply_ids]
        return ids + list(self.steps[upto].asked_ids)


def conversation(number: int) -> Conversation:
    """The conversation of that number."""
    return Conversation(number, number % AGENTS, tuple(_step(number, turn) for turn in range(TURNS)))


def branch(talk: Conversation, turn: int, number: int) -> Step:
    """Another continuation of a conversation after its first `turn` turns: a request nobody made yet."""
    return _step(talk.number, turn, f"again {number}: ")


@cache
def instructions(agent: int) -> Json:
    """The system message of an agent, the same in all of its conversations."""
    return {"role": "system", "content": _said(_instruction_sentences(agent))}


@cache
def instruction_ids(agent: int) -> tuple[int, ...]:
    """Its token ids."""
    return (*_FRAME, *_ids(_instruction_sentences(agent)))


@cache
def tools(agent: int) -> list[Json]:
    """The tools an agent offers."""
    choose = random.Random(f"tools {agent}")
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": _said(choose.choices(range(SENTENCES), k=6)),
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
        for number in range(14)
    ]


def _picked(number: int, turn: int, count: int) -> list[int]:
    """Sentences that look picked at random: a multiplicative hash, since a generator would take longer
    than everything else."""
    start = (number * TURNS + turn) * 2_654_435_761
    return [(start + one * 40_503 * (start >> 16 | 1)) >> 8 & SENTENCES - 1 for one in range(count)]


def _step(number: int, turn: int, prefix: str = "") -> Step:
    asked, asked_ids = _asked(number, turn, prefix)
    works = turn % 3 != 2
    said = _picked(number, turn + 1_000_003, 1 if works else 4)
    reply: Json = {"role": "assistant", "content": None if works else _said(said)}
    if works:
        call = {"name": f"tool_{said[0] % 14}", "arguments": f'{{"path": "/notes/{number}/{turn}.md"}}'}
        reply["tool_calls"] = [{"id": _call_id(number, turn), "type": "function", "function": call}]
    returned = reply if number % 2 else {**reply, "refusal": None}
    return Step(asked, asked_ids, reply, returned, tuple(_ids(said)))


def _asked(number: int, turn: int, prefix: str) -> tuple[tuple[Json, ...], tuple[int, ...]]:
    if turn % 3 == 0:
        said = _picked(number, turn, 2)
        message: Json = {"role": "user", "content": f"{prefix}{_said(said)} ({number}.{turn})"}
    else:
        said = _picked(number, turn, 12)
        message = {
            "role": "tool",
            "tool_call_id": _call_id(number, turn - 1),
            "content": f"{prefix}{_said(said)} ({number}.{turn})",
        }
    return (message,), (*_FRAME, *_ids(said), number % 150_000, turn, *_FRAME)


def _call_id(number: int, turn: int) -> str:
    return f"call_{number:012d}{turn:04d}"


@cache
def _instruction_sentences(agent: int) -> tuple[int, ...]:
    choose = random.Random(f"instructions {agent}")
    sentences: list[int] = []
    length = 0
    while length < INSTRUCTION_TOKENS:
        sentences.append(choose.randrange(SENTENCES))
        length += len(_sentences()[sentences[-1]][1])
    return tuple(sentences)


def _said(sentences: Sequence[int]) -> str:
    return " ".join(_sentences()[number][0] for number in sentences)


def _ids(sentences: Sequence[int]) -> list[int]:
    return [word for number in sentences for word in _sentences()[number][1]]


@cache
def _sentences() -> tuple[tuple[str, tuple[int, ...]], ...]:
    choose = random.Random("sentences")
    words = [
        "".join(choose.choices("abcdefghilmnoprstuvw", k=choose.randint(2, 9))) for _ in range(VOCABULARY)
    ]
    ids = choose.sample(range(1_000, 150_000), VOCABULARY)
    weights = [1 / (rank + 2) for rank in range(VOCABULARY)]
    made = []
    for _ in range(SENTENCES):
        chosen = choose.choices(range(VOCABULARY), weights, k=choose.randint(8, 24))
        made.append((" ".join(words[word] for word in chosen) + ".", tuple(ids[word] for word in chosen)))
    return tuple(made)
