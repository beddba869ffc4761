"""The `rules` judge: a verdict and hints from a turn's evidence, with no model."""

from typing import Final

from afterturn_extractor import hints
from afterturn_extractor.call_forms import broken_call
from afterturn_extractor.evidence import Evidence, Judgement, Verdict
from afterturn_extractor.folding import clean
from afterturn_extractor.injection import orders_judge
from afterturn_extractor.reaction import Reaction, read
from afterturn_extractor.tool_reading import ToolReading
from afterturn_extractor.tool_results import read_tool

SEARCHED_AT_MOST: Final = 20_000


def judge(evidence: Evidence) -> Judgement:
    """Judge a turn by what its user said and its tools returned; feedback and outcomes are `fusion`'s.

    The user's opinion decides over tool results; the last opinion over earlier ones. Verdict None where the
    evidence shows none: silence, an environment fault, text that speaks to the judge.
    """
    reactions = [
        read(part.text, evidence.user_request, evidence.reply_text)
        for part in evidence.next_state
        if part.role == "user"
    ]
    readings = [
        read_tool(part.text, reply_text=evidence.reply_text, calls=evidence.reply_tool_calls)
        for part in evidence.next_state
        if part.role == "tool"
    ]
    flags = frozenset[str]().union(*(reaction.flags for reaction in reactions))
    if _others_order_judge(evidence):
        flags |= {"injection"}
    if any(reading.kind == "environment" for reading in readings):
        flags |= {"environment"}
    votes: tuple[Verdict | None, ...] = (
        *(reaction.verdict for reaction in reactions),
        *(reading.verdict for reading in readings),
    )
    broken = broken_call(evidence.reply_tool_calls, evidence.tools)
    if broken:
        flags |= {"schema"}
    verdict, rationale = _decide(reactions, readings, broken, injected="injection" in flags)
    directives = [sentence for reaction in reactions for sentence in reaction.directives]
    # Praise leaves nothing to correct.
    told = () if verdict == 1 else hints.from_sentences(directives, "rules")
    return Judgement(verdict, "rules", votes, rationale, told, flags)


def _decide(
    reactions: list[Reaction], readings: list[ToolReading], broken: str, *, injected: bool
) -> tuple[Verdict | None, str]:
    for reaction in reversed(reactions):
        if reaction.verdict in (-1, 1):
            return reaction.verdict, f"user: {reaction.rationale}"
    if broken:  # the agent's own doing, whatever the environment made of it
        return -1, f"tool call: {broken}"
    tools = [reading.verdict for reading in readings if reading.kind != "environment"]
    if -1 in tools:
        return -1, "tool: error"
    if 1 in tools and not injected and len(tools) == len(readings):
        return 1, "tool: progress"
    if any(reaction.verdict == 0 for reaction in reactions):
        return 0, "user: went on"
    if tools and not injected and set(tools) == {0} and len(tools) == len(readings):
        return 0, "tool: empty"
    reasons = [reaction.rationale for reaction in reactions] or ["no opinion found"]
    return None, "tool: environment" if len(tools) < len(readings) else f"user: {reasons[-1]}"


def _others_order_judge(evidence: Evidence) -> bool:
    tools = (part.text for part in evidence.next_state if part.role == "tool")
    return any(orders_judge(clean(text[:SEARCHED_AT_MOST])) for text in (evidence.reply_text, *tools))
