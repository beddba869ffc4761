"""Tool results read as evidence: progress, the agent's error, or a fault of the environment."""

import re
from http import HTTPStatus
from typing import Final

from afterturn_extractor import tool_objects, tool_text
from afterturn_extractor.evidence import ToolCall
from afterturn_extractor.folding import clean
from afterturn_extractor.likeness import held_share
from afterturn_extractor.tool_reading import EMPTY, ENVIRONMENT, ERROR, PROGRESS, ToolReading

# A command that hangs is the agent's own doing, unless what it waited for is the network.
_OWN_TIMEOUT: Final = re.compile(
    r"^\W{0,3}(?:error: )?(?:the )?(?:command|script|execution|process) timed out", re.I
)
_NETWORK_CALL: Final = re.compile(
    r"https?:|\b(?:curl|wget|ping|ssh|scp|rsync|git (?:clone|pull|push|fetch)|pip|npm|npx|apt(?:-get)?|"
    r"docker|fetch|browser|search|request\w*|dig|nslookup|telnet|nc)\b",
    re.I,
)
_QUERY: Final = re.compile(r"\bselect\b.+\bfrom\b", re.I | re.S)
_EMPTY_SET: Final = re.compile(r"^(?:\[\s*\]|\{\s*\}|\(0 rows\)|empty set.*)$", re.I)
# A status line alone.
_PHRASES: Final = "|".join(
    f"{status.value} {re.escape(status.phrase.split()[0])}\\b"
    for status in HTTPStatus
    if status.value >= HTTPStatus.BAD_REQUEST
)
_STATUS_LINE: Final = re.compile(rf"^(?:http/[\d.]+ (?=[45]\d\d\b)|(?={_PHRASES}))(\d{{3}})\b", re.I)
_SEARCHES: Final = re.compile(r"search|query|lookup|find|retriev", re.I)
_HIT: Final = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)]) (.+)$", re.M)
_KEY: Final = re.compile(r"\"\w+\"\s*:")
_FEWEST_HITS: Final = 2
_HIT_AT_MOST: Final = 600
# No single hit holds more than this share of what was searched for: the hits are about something else.
_OFF_TOPIC_TO: Final = 0.25


def read_tool(text: str, *, reply_text: str = "", calls: tuple[ToolCall, ...] = ()) -> ToolReading:
    """Return what a tool result says about the turn that called the tool.

    Only how a result begins and ends, and what its structure declares, make it an error: a page or a log that
    mentions errors is not one.
    """
    text = clean(text).strip()
    if _EMPTY_SET.match(text) and _wrote_query(reply_text, calls):
        # The agent chose the filter itself, and it finds nothing the user asked for.
        return ERROR
    if tool_text.is_empty(text):
        return EMPTY
    if (status := _STATUS_LINE.match(text)) is not None:
        return tool_objects.of_status(int(status[1]))
    if _OWN_TIMEOUT.match(text):
        waits = _NETWORK_CALL.search(" ".join([reply_text[-2000:], *(call.arguments for call in calls)]))
        return ENVIRONMENT if waits else ERROR
    result = tool_objects.parsed(text)
    reading = _of_text(text) if result is None else _of_object(result, text)
    return EMPTY if reading == PROGRESS and result is None and _off_topic(text, calls) else reading


def _of_object(result: tool_objects.Object, text: str) -> ToolReading:
    structured = tool_objects.by_structure(result)
    if structured is not None:
        return structured
    declared = tool_objects.declared(result)
    if declared is None:
        return _of_text(text)
    if not declared:
        return PROGRESS
    return ENVIRONMENT if tool_text.names_environment(declared) else ERROR


def _of_text(text: str) -> ToolReading:
    if tool_text.is_success(text):
        return PROGRESS
    if tool_text.is_error(text):
        return ENVIRONMENT if tool_text.names_environment(text) else ERROR
    return ENVIRONMENT if tool_text.tells_environment(text) else PROGRESS


def _off_topic(text: str, calls: tuple[ToolCall, ...]) -> bool:
    """Whether a search found a list of things of which none is about what was searched for."""
    sought = " ".join(_KEY.sub(" ", call.arguments) for call in calls if _SEARCHES.search(call.name))
    hits = [hit[1][:_HIT_AT_MOST] for hit in _HIT.finditer(text)]
    # A short query says too little of what it is about.
    if held_share(sought, sought) == 0 or len(hits) < _FEWEST_HITS:
        return False
    return all(held_share(sought, hit) <= _OFF_TOPIC_TO for hit in hits)


def _wrote_query(reply_text: str, calls: tuple[ToolCall, ...]) -> bool:
    return any(
        _QUERY.search(written[-4000:]) for written in (reply_text, *(call.arguments for call in calls))
    )
