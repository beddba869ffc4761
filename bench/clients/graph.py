"""What turns a conversation must have led to, and what is wrong with those that are there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.clients.talk import MARK, Talk

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One turn of the conversation: whether its reply is a call, and what came after it.

    `after` holds `tool`, or how the user's piece must begin; the last step has nothing after it.
    """

    calls: bool
    after: tuple[str, ...] = ()


def expected(shape: str, talk: Talk) -> tuple[Step, ...]:
    """The turns that a program of this shape leads to."""
    _, correction, question = talk.said
    shapes = {
        "tools": (
            Step(True, ("tool",)),
            Step(False, (correction,)),
            Step(False, (question,)),
            Step(False),
        ),
        "smolagents": (
            Step(True, ("tool",)),
            Step(True, ("tool", correction)),
            Step(True, ("tool", question)),
            Step(True),
        ),
        "smolagents_code": (
            Step(False, ("tool",)),
            Step(False, ("tool", correction)),
            Step(False, ("tool", question)),
            Step(False),
        ),
        # A reply without a call is thrown away and complained about.
        "mini": (Step(True, ("tool",)), Step(False, ("Tool call error",)), Step(True)),
        "toolless": (Step(False, (correction,)), Step(False, (question,)), Step(False)),
    }
    return shapes[shape]


@dataclass(frozen=True)
class Report:
    """What was found of one conversation: `linked` of `mains` turns are where they belong."""

    mains: int
    linked: int
    sides: int
    faults: tuple[str, ...]


def belongs(turn: Json, talk: Talk) -> bool:
    """Whether a turn's request is about this conversation."""
    return f"{MARK}{talk.word}" in str(turn["request"]["messages"])


def is_errand(turn: Json, first: Json, shape: str) -> bool:
    """Whether the client asked for itself, as far as the request shows: no tools from a program that has
    them, other instructions than those of the conversation from one that has none."""
    if shape in ("toolless", "smolagents_code"):
        return bool(turn["request"]["messages"][0] != first["request"]["messages"][0])
    return not turn["request"]["tools"]


def report(turns: Sequence[Json], steps: Sequence[Step], shape: str) -> Report:
    """Compare the turns of one conversation, oldest first, with what it must have led to."""
    faults: list[str] = []
    kept = [turn for turn in turns if turn["excluded_reason"] not in ("engine_failed", "client_disconnected")]
    mains = [turn for turn in kept if turn["kind"] == "main"]
    sides = [turn for turn in kept if turn["kind"] == "side"]
    for turn in kept:
        truth = "side" if is_errand(turn, kept[0], shape) else "main"
        if turn["kind"] != truth:
            faults.append(f"{turn['id']} is {turn['kind']} ({turn['kind_reason']}), not {truth}")
        if turn["kind"] == "side" and turn["state"] != "excluded":
            faults.append(f"{turn['id']} is a side turn and {turn['state']}")
    sessions = {turn["session_id"] for turn in mains}
    if len(sessions) > 1:
        faults.append(f"{len(sessions)} sessions instead of one")
    if len(mains) != len(steps):
        faults.append(f"{len(mains)} main turns instead of {len(steps)}")
    linked = 0
    for number, step in enumerate(steps[: len(mains)]):
        wrong = list(_wrong(number, mains, step))
        linked += not wrong
        faults += [f"main turn {number + 1}: {fault}" for fault in wrong]
    return Report(len(mains), linked, len(sides), tuple(faults))


def _wrong(number: int, mains: Sequence[Json], step: Step) -> Sequence[str]:
    turn = mains[number]
    wrong: list[str] = []
    parent = mains[number - 1]["id"] if number else None
    if turn["parent_id"] != parent:
        wrong.append(f"its parent is {turn['parent_id']}, not {parent}")
    if bool(turn["reply"].get("tool_calls")) != step.calls:
        wrong.append("its reply is " + ("no call" if step.calls else "a call"))
    after = [piece["role"] if piece["role"] == "tool" else piece["text"] for piece in turn["next_state"]]
    alike = len(after) == len(step.after) and all(map(str.startswith, after, step.after))
    if not alike:
        wrong.append(f"after it came {after}, not {list(step.after)}")
    last = number >= len(mains) - 2  # nothing goes on from its user's text, so it need not be believed yet
    if any(not piece["believed"] for piece in turn["next_state"]) and not last:
        wrong.append("what came after it is not believed")
    return wrong
