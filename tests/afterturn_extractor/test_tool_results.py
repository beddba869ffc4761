import pytest

from afterturn_extractor.evidence import ToolCall
from afterturn_extractor.tool_results import read_tool

ERRORS = [
    "Error: payment method not found",
    "Error executing query: Unknown column 'name' in 'field list'",
    "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x' is not defined",
    "/bin/bash: line 1: rsync: command not found",
    "cp: cannot stat '/a/b': No such file or directory",
    "od: invalid option -- 'n'\nTry 'od --help' for more information.",
    '{"output": "", "exit_code": 2, "error": null}',
    '{"error": "unknown reservation"}',
    '{"success": false, "message": "no such user"}',
    "collected 3 items\n\n=== 1 failed, 2 passed in 0.1s ===",
    "src/main.c:3:1: error: expected ';'",
    "Command timed out",
    "404 Not Found",
    "HTTP/1.1 422 Unprocessable Entity",
    '{"status": 409, "message": "already booked"}',
    '{"status": "failed"}',
    "Validation failed: title must not be empty",
    "a.js\n  3:1  error  'x' is not defined  no-undef\n\n1 problem (1 error, 0 warnings)",
    "git: 'comit' is not a git command. See 'git --help'.",
]
ENVIRONMENT = [
    "Error: connection refused",
    "curl: (6) Could not resolve host: example.org",
    "Error: 429 Too Many Requests",
    '{"error": "rate limit exceeded, retry in 20 s"}',
    "HTTP error 503",
    "Error: sandbox denied the write",
    "OSError: [Errno 28] No space left on device",
    "requests.exceptions.ConnectTimeout: timed out",
    "Error: the request timed out",
    "503 Service Unavailable, try again later",
    "429 Too Many Requests",
    "HTTP/2 502",
    '{"status": 503, "message": "maintenance"}',
    '{"status": "pending_approval", "id": 7}',
    "Your session has expired, please sign in again.",
    "Waiting for the owner's approval: approval pending",
]
PROGRESS = [
    "[('Haley',), ('Kris',)]",
    "55",
    "[(None,)]",
    '{"reservation_id": "HATHAT", "status": "booked"}',
    '{"output": "fatal: old log line", "exit_code": 0, "error": null}',
    "=== 12 passed in 0.3s ===",
    "- “Error (band)”\nA rock band that had an error of judgement in 1990 …",
    "=====================",
    "10:01 INFO started\n10:02 ERROR payment declined for order 7",
    "404 rows copied",
    '{"results": [], "total": 3}',
]
EMPTY = ["", "  ", "(no output)", "[]", "null", "No results found.", "0 rows"]
EMPTY += ['{"results": [], "total": 0}', '{"ok": true, "items": {}}']


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_of_the_agent_is_bad(text: str) -> None:
    assert read_tool(text).verdict == -1


@pytest.mark.parametrize("text", ENVIRONMENT)
def test_a_fault_of_the_environment_is_no_verdict(text: str) -> None:
    reading = read_tool(text)
    assert (reading.verdict, reading.kind) == (None, "environment")


@pytest.mark.parametrize("text", PROGRESS)
def test_a_result_is_progress(text: str) -> None:
    assert read_tool(text).verdict == 1


@pytest.mark.parametrize("text", EMPTY)
def test_nothing_is_neither(text: str) -> None:
    assert read_tool(text).verdict == 0


def test_a_command_that_waits_for_the_network_is_not_the_agents_fault() -> None:
    assert (
        read_tool("Command timed out", calls=(ToolCall("bash", '{"command": "grep -ri x"}'),)).verdict == -1
    )
    assert (
        read_tool("Command timed out", calls=(ToolCall("bash", '{"command": "pip install x"}'),)).verdict
        is None
    )


def test_a_query_the_agent_wrote_that_finds_nothing_is_bad() -> None:
    assert read_tool("[]", reply_text="SELECT name FROM pets WHERE kind = 'cat'").verdict == -1
    assert read_tool("[]", calls=(ToolCall("list_files", '{"path": "."}'),)).verdict == 0


def test_errors_inside_a_long_page_are_its_subject() -> None:
    page = "History of computing.\n" + "Some text. " * 100 + "\nNameError: an example\n" + "More text. " * 100
    assert read_tool(page).verdict == 1
    assert read_tool("Running …\n" + "ok\n" * 600 + "NameError: name 'x' is not defined").verdict == -1


def test_hits_of_which_none_is_about_what_was_sought_are_nothing_found() -> None:
    calls = (ToolCall("web_search", '{"query": "tallest lighthouse in Normandy"}'),)
    assert read_tool("1. Apple pie recipes\n2. How to bake bread", calls=calls).verdict == 0
    assert read_tool("1. Lighthouses of Normandy\n2. How to bake bread", calls=calls).verdict == 1
    assert read_tool("1. Apple pie recipes\n2. How to bake bread").verdict == 1
    short = (ToolCall("web_search", '{"query": "dessert"}'),)
    assert read_tool("1. Apple pie recipes\n2. How to bake bread", calls=short).verdict == 1


def test_a_result_that_is_nested_without_end_is_read_as_text() -> None:
    assert read_tool('{"a":' * 100_000).verdict == 1
