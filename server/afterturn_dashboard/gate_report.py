"""A gate report as sentences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from afterturn import JSON, JSONObject
from afterturn_dashboard.words import figure

Outcome = Literal["passed", "refused", "open"]
SHAPES = ("empty", "unfinished", "looping")


@dataclass(frozen=True)
class Finding:
    """One check: what it asks, how it came out, what was seen, and the figures behind it."""

    title: str
    asks: str
    outcome: Outcome
    seen: str
    figures: tuple[tuple[str, str], ...] = ()


def findings(gate: JSON) -> tuple[Finding, ...]:
    """The checks in a report in the order they are made, then whatever else it holds."""
    if not isinstance(gate, dict):
        return ()
    found = [_check(name, gate[name]) for name in CHECKS if name in gate]
    others = {name: part for name, part in gate.items() if name not in {*CHECKS, "passed", "reasons"}}
    if others:
        found.append(Finding("Also measured", "", "open", "", figures(others)))
    return tuple(found)


def summary(gate: JSON) -> str:
    """The whole report in a sentence."""
    if not isinstance(gate, dict):
        return ""
    reasons = gate.get("reasons")
    if isinstance(reasons, list) and reasons:
        return f"Refused: {'; '.join(str(reason) for reason in reasons)}."
    refused = [finding.title.lower() for finding in findings(gate) if finding.outcome == "refused"]
    if refused or gate.get("passed") is False:
        return f"Refused: {', '.join(refused) or 'no reason was given'}."
    undecided = [finding.title.lower() for finding in findings(gate) if finding.outcome == "open"]
    return f"Passed; not decided: {', '.join(undecided)}." if undecided else "Every check passed."


def figures(values: JSONObject, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Names and values of an object, nested ones with their path."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict):
            rows += figures(value, f"{label} · ")
        else:
            rows.append((label, _text(value)))
    return tuple(rows)


def _check(name: str, part: JSON) -> Finding:
    title, asks, say, used = CHECKS[name]
    if not isinstance(part, dict):
        return Finding(
            title, asks, "open", "Not checked: an earlier check had refused, or there was nothing."
        )
    outcome: Outcome = "open"
    if part.get("outcome") == "passed":
        outcome = "passed"
    elif part.get("outcome") == "refused":
        outcome = "refused"
    rest = {key: value for key, value in part.items() if key not in {"outcome", "reasons", *used}}
    return Finding(title, asks, outcome, say(part), figures(rest))


def _real(part: JSONObject) -> str:
    return (
        f"At the token that moved most the trainer made a change of {_nats(part, 'trainer')}, "
        f"the engine shows {_nats(part, 'engine')} (tolerance {_text(part.get('tolerance'))})."
    )


def _learned(part: JSONObject) -> str:
    turns = _text(part.get("turns"))
    if part.get("mean") is None:
        return "No held-out turn yet; the check decides from 16 on."
    interval = f"90 % interval {_text(part.get('low'))} to {_text(part.get('high'))}"
    margin = f"Margin {_nats(part, 'mean')} a token over {turns} held-out turns"
    if part.get("outcome") == "not enough data":
        return f"{margin}; too few to decide (16 are needed)."
    return f"{margin}, {interval}."


def _drift(part: JSONObject) -> str:
    return (
        f"{_nats(part, 'kl')} a token from the live adapter on {_text(part.get('turns'))} recent turns; "
        f"the limit is {_text(part.get('limit'))}."
    )


def _bounded(part: JSONObject) -> str:
    sources = part.get("sources")
    if not isinstance(sources, dict):
        return "Where the signals come from is not known."
    named = ", ".join(f"{name} {_text(count)}" for name, count in sources.items())
    if len(sources) < 2:
        return f"All signals come from one source: {named}."
    largest, limit = _share(part, "largest"), _share(part, "limit")
    return f"Signals by source: {named}; the largest share is {largest}, the limit {limit}."


def _kept(part: JSONObject) -> str:
    shapes = ", ".join(
        f"{name} {_share(part, f'{name}_before')} → {_share(part, f'{name}_after')}" for name in SHAPES
    )
    return (
        f"Solved {_share(part, 'solved_before')} → {_share(part, 'solved_after')} "
        f"of {_text(part.get('probes'))} probes (the base model {_share(part, 'solved_base')}); "
        f"replies {shapes}."
    )


def _nats(part: JSONObject, name: str) -> str:
    return f"{_text(part.get(name))} nats"


def _share(part: JSONObject, name: str) -> str:
    value = part.get(name)
    return f"{100 * value:.1f} %" if isinstance(value, int | float) else "–"


def _text(value: JSON) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return figure(value)
    if isinstance(value, list):
        shown = ", ".join(_text(item) for item in value[:8])
        return f"{shown}, … ({len(value)} in all)" if len(value) > 8 else shown or "none"
    return str(value)


SHAPES_BOTH = tuple(f"{shape}_{when}" for shape in SHAPES for when in ("before", "after"))

# Title, question, sentence, and what the sentence already says.
CHECKS: dict[str, tuple[str, str, Callable[[JSONObject], str], tuple[str, ...]]] = {
    "real": (
        "Real",
        "Does the engine serve the very change that was trained?",
        _real,
        ("trainer", "engine", "tolerance"),
    ),
    "learned": (
        "Learned",
        "Did held-out turns move the way their verdicts point?",
        _learned,
        ("turns", "mean", "low", "high"),
    ),
    "drift": (
        "Near",
        "Is it still near the live adapter on what was just talked about?",
        _drift,
        ("kl", "turns", "limit"),
    ),
    "kept": (
        "Kept",
        "Can it still do what it could, and do its replies still end?",
        _kept,
        ("probes", "solved_base", "solved_before", "solved_after", *SHAPES_BOTH),
    ),
    "bounded": (
        "Bounded",
        "Does one of several users and tools have the say?",
        _bounded,
        ("sources", "largest", "limit"),
    ),
}
