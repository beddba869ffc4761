"""The check of client programs finds what is wrong with a turn graph, and nothing with a right one."""

import copy

import pytest
from bench.clients.graph import belongs, expected, report
from bench.clients.talk import Talk

TALK = Talk("heron")
CALLS = [{"id": "c1", "function": {"name": "shell", "arguments": "{}"}}]


def piece(role, text, believed=True):
    return {"role": role, "text": text, "believed": believed}


def turn(turn_id, parent_id, after=(), calls=(), **changes):
    return {
        "id": turn_id,
        "parent_id": parent_id,
        "session_id": "s1",
        "kind": "main",
        "kind_reason": "default",
        "state": "open",
        "excluded_reason": None,
        "request": {"messages": [{"role": "user", "content": TALK.said[0]}], "tools": [{"name": "shell"}]},
        "reply": {"tool_calls": list(calls)},
        "next_state": list(after),
        **changes,
    }


def right():
    _, correction, question = TALK.said
    title = {"kind": "side", "state": "excluded", "excluded_reason": "side"}
    return [
        turn("t1", None, [piece("tool", "heron")], CALLS),
        turn("t0", None, request={"messages": [{"content": TALK.said[0]}], "tools": []}, **title),
        turn("t2", "t1", [piece("user", correction)]),
        turn("t3", "t2", [piece("user", question, believed=False)]),
        turn("t4", "t3"),
    ]


STEPS = expected("tools", TALK)


def test_a_right_graph_has_no_faults():
    found = report(right(), STEPS, "tools")
    assert (found.mains, found.linked, found.sides, found.faults) == (4, 4, 1, ())
    assert all(belongs(each, TALK) for each in right())
    assert not belongs(right()[0], Talk("otter"))


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (2, {"parent_id": None}),
        (2, {"parent_id": "t0"}),
        (2, {"next_state": []}),
        (2, {"next_state": [piece("user", "no, shorter please, heron", believed=False)]}),
        (0, {"next_state": [piece("tool", "heron"), piece("user", "no, shorter please, heron")]}),
        (0, {"reply": {}}),
        (3, {"session_id": "s2"}),
        (1, {"kind": "main", "state": "open", "excluded_reason": None}),
        (1, {"state": "open", "excluded_reason": None}),
        (3, {"kind": "side", "state": "excluded", "excluded_reason": "side"}),
    ],
)
def test_each_thing_that_can_be_wrong_is_found(number, change):
    turns = copy.deepcopy(right())
    turns[number] |= change
    assert report(turns, STEPS, "tools").faults


def test_an_attempt_that_failed_is_passed_over():
    failed = turn("t9", "t1", excluded_reason="engine_failed", state="excluded")
    assert report([*right(), failed], STEPS, "tools").faults == ()
