"""What a request says about the form of its reply, as one grammar.

`response_format`, `structured_outputs` (and its older names `guided_*`) and a `tool_choice` that forces a
call. Calls are written as the model is told to write them, `<tool_call>\\n{"name": …, "arguments": …}\\n
</tool_call>`, with arguments after the tool's own schema. A model that thinks may do so first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import llguidance
from pydantic import JsonValue

from afterturn_engine.errors import InvalidRequest, Malformed
from afterturn_engine.reasoning import CLOSE_THOUGHT, OPEN_THOUGHT
from afterturn_engine.requests import (
    ChatRequest,
    NamedTool,
    Object,
    ResponseFormat,
    SamplingRequest,
    StructuredOutputs,
    Tool,
)
from afterturn_engine.tool_calls import CLOSE, OPEN

# JSON on one line: a small model left free to write white space may write nothing else until it is cut off.
# Separators are regular expressions to llguidance.
_ONE_LINE: Object = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
_DENSE: Object = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
# As `json.dumps` writes it, and as calls are shown to the model.
_AS_SHOWN: Object = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_KINDS = ("json", "regex", "choice", "grammar", "json_object")


@dataclass(frozen=True)
class Constraint:
    """A grammar in Lark, and the field of the request that asked for it."""

    grammar: str
    param: str


@dataclass(frozen=True)
class Manner:
    """How the model writes.

    `may_think`: it may think before it answers; `thinking`: the prompt has begun a thought;
    `control_marks`: marks of thoughts and calls that are control tokens of its vocabulary.
    """

    may_think: bool = False
    thinking: bool = False
    control_marks: frozenset[str] = frozenset()

    def mark(self, mark: str) -> str:
        return mark if mark in self.control_marks else _literal(mark)


def of_chat(asked: ChatRequest, manner: Manner) -> Constraint | None:
    """The grammar of a chat's reply; None leaves the model free. Raises InvalidRequest naming the field."""
    tools = asked.tools if asked.tools and asked.tool_choice != "none" else []
    forced = asked.tool_choice == "required" or isinstance(asked.tool_choice, NamedTool)
    if forced:
        named = asked.tool_choice.function.name if isinstance(asked.tool_choice, NamedTool) else None
        wanted = [tool for tool in tools if named in (None, tool.function.name)]
        several = named is None and asked.parallel_tool_calls is not False
        rules = ["body: calls", *_calls(wanted, several, manner)]
        return Constraint(_behind_thought(rules, manner), "tools")
    text = _text(asked)
    if text is None or text.whole:
        return None if text is None else Constraint(text.rules[0], text.param)
    rules = list(text.rules)
    if tools:
        # A format is the format of an answer; calling a tool instead stays possible, as in OpenAI's API.
        rules = ["body: text | calls", *rules, *_calls(tools, asked.parallel_tool_calls is not False, manner)]
    else:
        rules = ["body: text", *rules]
    return Constraint(_behind_thought(rules, manner), text.param)


def of_completion(asked: SamplingRequest) -> Constraint | None:
    """The grammar of a text completion; None leaves the model free. Raises InvalidRequest."""
    text = _text(asked)
    if text is None:
        return None
    grammar = text.rules[0] if text.whole else "\n".join(["start: text", *text.rules])
    return Constraint(grammar, text.param)


@dataclass(frozen=True)
class _Text:
    """Rules that define `text`, or a `whole` grammar with a start of its own."""

    rules: tuple[str, ...]
    param: str
    whole: bool = False


def _text(asked: SamplingRequest) -> _Text | None:
    form = asked.response_format
    if form is not None and form.type != "text":
        if form.type == "json_object":
            return _Text((_json({"type": "object"}),), "response_format")
        return _Text((_schema(form),), "response_format")
    given = asked.structured_outputs or _guided(asked)
    if given is None:
        return None
    return _structured(given, "structured_outputs" if asked.structured_outputs else "guided")


def _schema(form: ResponseFormat) -> str:
    if form.json_schema is None or form.json_schema.schema_ is None:
        raise Malformed(
            "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
            param="response_format",
        )
    return _json(form.json_schema.schema_, lenient=not form.json_schema.strict)


def _guided(asked: SamplingRequest) -> StructuredOutputs | None:
    """The fields by which older versions of vLLM knew the same."""
    given = StructuredOutputs(
        json=asked.guided_json,
        regex=asked.guided_regex,
        choice=asked.guided_choice,
        grammar=asked.guided_grammar,
    )
    return given if given.kinds else None


def _structured(given: StructuredOutputs, param: str) -> _Text:
    if given.structural_tag is not None:
        raise InvalidRequest("this engine knows no structural tags", param=f"{param}.structural_tag")
    if len(given.kinds) != 1:
        raise Malformed(
            f"exactly one of {', '.join(_KINDS)} must be given, got {', '.join(given.kinds) or 'none'}",
            param=param,
        )
    place = f"{param}_{given.kinds[0]}" if param == "guided" else f"{param}.{given.kinds[0]}"
    if given.regex is not None:
        return _Text((f"text: /{llguidance.regex_to_lark(given.regex)}/",), place)
    if given.choice is not None:
        return _Text((f"text: {_one_of(given.choice, place)}",), place)
    if given.grammar is not None:
        return _Text((_user_grammar(given.grammar, place),), place, whole=True)
    schema: JsonValue = {"type": "object"} if given.json_ is None else given.json_
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise InvalidRequest(f"not JSON: {error}", param=place) from error
    if not isinstance(schema, dict):
        raise InvalidRequest("a JSON schema must be an object", param=place)
    return _Text((_json(schema, style=_style(given, param)),), place)


def _style(given: StructuredOutputs, param: str) -> Object:
    if given.disable_additional_properties:
        # Said in the schema, it would hold.
        raise InvalidRequest(
            "write `additionalProperties: false` into the schema", f"{param}.disable_additional_properties"
        )
    if given.whitespace_pattern is not None:
        return {"whitespace_pattern": given.whitespace_pattern}
    return _DENSE if given.disable_any_whitespace else _ONE_LINE


def _one_of(choices: Sequence[str], place: str) -> str:
    if not choices or not all(choices):
        raise InvalidRequest("choices must be texts, at least one", param=place)
    return " | ".join(map(_literal, choices))


def _user_grammar(grammar: str, place: str) -> str:
    """Lark as it is; the GBNF of llama.cpp and xgrammar translated."""
    if "::=" not in grammar:
        return grammar
    try:
        return llguidance.gbnf_to_lark.gbnf_to_lark(grammar)
    except Exception as error:
        # The translator raises bare exceptions for what it cannot read.
        raise InvalidRequest(f"not a grammar: {error}", param=place) from error


def _json(schema: Object, lenient: bool = False, style: Object = _ONE_LINE) -> str:
    """A rule for `text`; `lenient` passes over keywords that cannot be held."""
    return f"text: %json {_dumped(schema, style, lenient)}"


def _calls(tools: Sequence[Tool], several: bool, manner: Manner) -> list[str]:
    """Rules for `calls`: one, or one and more."""
    rules = [
        'calls: call ("\\n" call)*' if several else "calls: call",
        f'call: {manner.mark(OPEN)} "\\n" one "\\n" {manner.mark(CLOSE)}',
        "one: " + " | ".join(f"one_{number}" for number in range(len(tools))),
    ]
    for number, tool in enumerate(tools):
        function = tool.function
        opening = f'{{"name": {json.dumps(function.name, ensure_ascii=False)}, "arguments": '
        rules.append(f'one_{number}: {_literal(opening)} arguments_{number} "}}"')
        rules.append(f"arguments_{number}: %json {_arguments(function.parameters, function.strict)}")
    return rules


def _arguments(parameters: Object | None, strict: bool | None) -> str:
    """Arguments are an object; only `strict` insists that every keyword of its schema can be held."""
    schema = {"type": "object", **(parameters or {})}
    if schema["type"] != "object":
        raise InvalidRequest("a function's parameters must be an object", param="tools")
    return _dumped(schema, _AS_SHOWN, lenient=not strict)


def _dumped(schema: Object, style: Object, lenient: bool) -> str:
    return json.dumps({**schema, "x-guidance": {**style, "lenient": lenient}})


def _behind_thought(rules: Sequence[str], manner: Manner) -> str:
    if not manner.may_think:
        return "\n".join(["start: body", *rules])
    opening = "thought" if manner.thinking else f"({manner.mark(OPEN_THOUGHT)} thought)?"
    if CLOSE_THOUGHT in manner.control_marks:
        thought = [f"thought: ANYTHING {CLOSE_THOUGHT} GAP", "ANYTHING: /(?s:.*)/"]
    else:
        close = CLOSE_THOUGHT.replace("/", "\\/")
        thought = ["thought: closed GAP", f"closed[lazy]: /(?s:.*){close}/"]
    return "\n".join([f"start: {opening} body", *thought, r"GAP: /[ \n]{0,4}/", *rules])


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
