"""Tool calls are held against the schemas that the request offered."""

import json

import pytest
from tests.stored_turns import StoredTurns

from afterturn_extractor.call_forms import broken_call
from afterturn_extractor.evidence import Evidence, NextStatePart, Tool, ToolCall
from afterturn_extractor.load_evidence import load_evidence
from afterturn_extractor.rules import judge

SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
TOOLS = (Tool("forecast", json.dumps(SCHEMA)),)


@pytest.mark.parametrize("arguments", ['{"days": 3}', '{"days": 3, "place": "Ulm"}'])
def test_a_call_that_fits_has_no_fault(arguments: str) -> None:
    assert broken_call((ToolCall("forecast", arguments),), TOOLS) == ""


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("forecast", '{"days": "3"}', "schema"),
        ("forecast", "{}", "schema"),
        ("forecast", "", "schema"),
        ("forecast", "[3]", "schema"),
        ("forecast", '{"days": 3', "no JSON"),
        ("forecast", "[" * 100_000, "no JSON"),
        ("forecast", '{"days": NaN}', "no JSON"),
        ("weather", '{"days": 3}', "not offered"),
    ],
)
def test_a_call_that_does_not_fit_is_named(name: str, arguments: str, fault: str) -> None:
    assert fault in broken_call((ToolCall("forecast", '{"days": 1}'), ToolCall(name, arguments)), TOOLS)


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "http://127.0.0.1:9/schema"}',  # nothing is fetched
        '{"$ref": "file:///etc/hostname"}',
        '{"type": 5}',
        "null",
        '{"properties": {"days": {"pattern": "(?=3)"}}}',
        '{"a":' * 1_000 + "1" + "}" * 1_000,
    ],
)
def test_a_schema_that_cannot_be_used_says_nothing(schema: str) -> None:
    assert broken_call((ToolCall("forecast", '{"days": "3"}'),), (Tool("forecast", schema),)) == ""


def test_a_pattern_that_would_take_for_ever_takes_linear_time() -> None:
    slow = Tool("forecast", '{"properties": {"days": {"pattern": "^(a+)+$"}}}')
    assert "schema" in broken_call((ToolCall("forecast", json.dumps({"days": "a" * 5_000 + "b"})),), (slow,))


def test_without_known_tools_nothing_is_said() -> None:
    assert broken_call((ToolCall("forecast", "?"),), ()) == ""


def called(arguments: str, *said: tuple[str, str]) -> Evidence:
    parts = tuple(NextStatePart(role, text) for role, text in said)  # type: ignore[arg-type]
    return Evidence("Will it rain?", (), "", (ToolCall("forecast", arguments),), parts, tools=TOOLS)


@pytest.mark.parametrize(
    "result", ["rain", "Error: connection refused", "[]", "Error: days must be a number"]
)
def test_a_broken_call_is_bad_whatever_the_tool_made_of_it(result: str) -> None:
    judged = judge(called('{"days": "3"}', ("tool", result)))
    assert judged.verdict == -1
    assert "schema" in judged.flags


def test_a_call_that_fits_is_judged_by_its_result() -> None:
    assert judge(called('{"days": 3}', ("tool", "rain"))).verdict == 1
    assert judge(called('{"days": 3}', ("tool", "Error: connection refused"))).verdict is None


def test_the_users_opinion_decides_over_the_form() -> None:
    assert judge(called('{"days": "3"}', ("tool", "rain"), ("user", "Perfect, thanks!"))).verdict == 1


def test_the_evidence_holds_the_functions_that_were_offered(stored: StoredTurns) -> None:
    function = {"type": "function", "function": {"name": "forecast", "parameters": SCHEMA}}
    about = {"reply": "", "called": ("forecast", '{"days": 3}')}
    plain = stored.turn(tools=[function], **about)  # type: ignore[arg-type]
    mixed = stored.turn(tools=[function, {"type": "web_search"}], **about)  # type: ignore[arg-type]
    with stored.database.read() as session:
        assert [json.loads(tool.parameters) for tool in load_evidence(session, plain).tools] == [SCHEMA]
        assert load_evidence(session, mixed).tools == ()
