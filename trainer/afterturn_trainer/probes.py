"""Gate 3, kept: short greedy probes with a checkable answer, fixed in `probes.jsonl` beside this file."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal, get_args

Check = Literal["number", "word", "exact", "case", "starts", "json", "only"]
MAX_NEW_TOKENS = 16


@dataclass(frozen=True)
class Probe:
    """A prompt for one user message, answered greedily with at most MAX_NEW_TOKENS tokens.

    check: how `want` is looked for. `number`: that number stands in the reply. `word`: one of the words or
    phrases does, whatever its case. `exact`: the reply is that word and nothing else. `case`: the word
    stands there in exactly this case. `starts`: the reply's first word. `json`: an object whose key
    want[0] has the value want[1]. `only`: want[0] stands there and none of the others.
    """

    id: str
    kind: str
    prompt: str
    check: Check
    want: tuple[str, ...]


@dataclass(frozen=True)
class ProbeReply:
    """A reply to a probe; `finished` is False when it was cut at the token limit."""

    text: str
    finished: bool


@dataclass(frozen=True)
class ProbeReport:
    """Shares over the probe set: solved by their checkers, and empty, unfinished, looping replies."""

    probes: int
    solved: float
    empty: float
    unfinished: float
    looping: float
    solved_ids: frozenset[str]
    by_kind: dict[str, float]


def load_probes() -> tuple[Probe, ...]:
    """The fixed set, in file order. Raises ValueError for a malformed or doubled line."""
    text = resources.files("afterturn_trainer").joinpath("probes.jsonl").read_text(encoding="utf-8")
    probes = tuple(_parse(line) for line in text.splitlines())
    if len({probe.id for probe in probes}) != len(probes):
        raise ValueError("two probes share an id")
    return probes


def _parse(line: str) -> Probe:
    row = json.loads(line)
    if row["check"] not in get_args(Check) or not row["want"]:
        raise ValueError(f"probe {row['id']}: unknown check or nothing wanted")
    return Probe(row["id"], row["kind"], row["prompt"], row["check"], tuple(row["want"]))


def score(probe: Probe, reply_text: str) -> bool:
    """Whether the reply solves the probe."""
    lowered = reply_text.strip().lower()
    want = probe.want
    if probe.check == "number":
        return want[0] in [found.replace(",", "") for found in re.findall(r"-?\d[\d,]*(?<!,)", lowered)]
    if probe.check == "word":
        return any(_stands(word, lowered) for word in want)
    if probe.check == "exact":
        return lowered.strip("\"'.!` \n") == want[0].lower()
    if probe.check == "case":
        return re.search(rf"\b{re.escape(want[0])}\b", reply_text) is not None
    if probe.check == "starts":
        return re.match(rf"\W*{re.escape(want[0].lower())}\b", lowered) is not None
    if probe.check == "only":
        return _stands(want[0], lowered) and not any(_stands(word, lowered) for word in want[1:])
    return any(found.get(want[0]) == want[1] for found in _objects(reply_text))


def _stands(phrase: str, lowered: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase.lower())}(?!\w)", lowered) is not None


def _objects(text: str) -> list[dict[str, object]]:
    """Every flat JSON object in the text; what does not parse is none."""
    found = []
    for body in re.findall(r"\{[^{}]*\}", text):
        try:
            found.append(json.loads(body))
        except json.JSONDecodeError:
            continue
    return found


def loops(text: str) -> bool:
    """The same run of three words, or of twelve characters, three times: a model going round in circles."""
    words = text.lower().split()
    runs = Counter(tuple(words[start : start + 3]) for start in range(len(words) - 2))
    squeezed = re.sub(r"\s+", " ", text)
    return any(count >= 3 for count in runs.values()) or re.search(r"(.{12,})\1\1", squeezed) is not None


def report(probes: Sequence[Probe], replies: Sequence[ProbeReply]) -> ProbeReport:
    """Score one reply per probe, in the same order. Raises ValueError when they do not align."""
    if len(probes) != len(replies) or not probes:
        raise ValueError(f"{len(probes)} probes and {len(replies)} replies do not align")
    solved = {probe.id for probe, reply in zip(probes, replies, strict=True) if score(probe, reply.text)}
    total = len(probes)
    of_kind = Counter(probe.kind for probe in probes)
    solved_of_kind = Counter(probe.kind for probe in probes if probe.id in solved)
    return ProbeReport(
        probes=total,
        solved=len(solved) / total,
        empty=sum(not reply.text.strip() for reply in replies) / total,
        unfinished=sum(not reply.finished for reply in replies) / total,
        looping=sum(loops(reply.text) for reply in replies) / total,
        solved_ids=frozenset(solved),
        by_kind={kind: solved_of_kind[kind] / count for kind, count in sorted(of_kind.items())},
    )
