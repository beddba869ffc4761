"""Tool calls held against what the request offered: unknown tools, and arguments of another form."""

from typing import Final

import jsonschema_rs
import orjson

from afterturn_extractor.evidence import Tool, ToolCall

# Whoever offers a tool writes its schema: patterns that take linear time only, and nothing is fetched.
_PATTERNS: Final = jsonschema_rs.RegexOptions()


def broken_call(calls: tuple[ToolCall, ...], tools: tuple[Tool, ...]) -> str:
    """What is wrong with the first call that is wrong; empty if none is, or if no tools are known.

    A schema that cannot be used says nothing about the call.
    """
    offered = {tool.name: tool.parameters for tool in tools}
    for call in calls:
        if not offered:
            break
        if call.name not in offered:
            return "a tool that was not offered"
        if fault := _fault(call.arguments, offered[call.name]):
            return fault
    return ""


def _fault(arguments: str, schema: str) -> str:
    try:
        given = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return "arguments that are no JSON"
    try:
        fits = jsonschema_rs.validator_for(schema, pattern_options=_PATTERNS, offline=True).is_valid(given)
    except ValueError:
        return ""
    return "" if fits else "arguments that break the tool's schema"
