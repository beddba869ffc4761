"""Replies in a form that the request demands: field case B13's forced calls, and `response_format`."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.afterturn_engine.served import Json, Served, chat_body
from tests.afterturn_engine.test_grammar import follow
from tests.tiny_model import build_tiny_model
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer

from afterturn_engine import chat, constraint
from afterturn_engine.adapters import Adapters
from afterturn_engine.constraint import Manner
from afterturn_engine.engine import Engine
from afterturn_engine.grammar import Grammars
from afterturn_engine.model import Model, load_model
from afterturn_engine.requests import ChatRequest
from afterturn_engine.scheduler import Limits, Scheduler
from afterturn_engine.template import MARKS, Template

Serve = Callable[..., Served]
CITY = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Köln", "Rome"]},
        "days": {"type": "integer", "maximum": 9, "minimum": 0},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY, "strict": True}},
    {"type": "function", "function": {"name": "get_time", "parameters": EMPTY}},
]
NAMED = {"type": "function", "function": {"name": "get_weather"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "trip", "schema": CITY, "strict": True}}
WEATHER = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln", "days": 3}}\n</tool_call>'
TIME = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
FREE = Manner()
CONTROL_CALL = 'start: <tool_call> "{\\"name\\": \\"get_time\\", \\"arguments\\": {}}" </tool_call>'
SAMPLED = {"temperature": 1.0, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "seed": 5}


def grammar_of(manner: Manner = FREE, **fields: Any) -> str:
    made = constraint.of_chat(ChatRequest.model_validate(chat_body(**fields)), manner)
    assert made is not None
    return made.grammar


def fits(model: Model, grammars: Grammars, grammar: str, text: str) -> bool:
    """Whether `text` is a whole reply of the grammar."""
    said, _, may_end = follow(model, grammars, grammar, text)
    return said == text and may_end


def test_a_required_call_is_one_or_more_of_the_tools(model: Model, grammars: Grammars) -> None:
    grammar = grammar_of(tools=TOOLS, tool_choice="required")
    for text in (WEATHER, TIME, f"{WEATHER}\n{TIME}"):
        assert fits(model, grammars, grammar, text)
    for text in ("No.", WEATHER.replace("Köln", "Oslo"), WEATHER.replace("get_weather", "fly"), TIME + " "):
        assert not fits(model, grammars, grammar, text)
    single = grammar_of(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert fits(model, grammars, single, WEATHER)
    assert not fits(model, grammars, single, f"{WEATHER}\n{TIME}")


def test_a_named_tool_is_called_once(model: Model, grammars: Grammars) -> None:
    grammar = grammar_of(tools=TOOLS, tool_choice=NAMED)
    assert fits(model, grammars, grammar, WEATHER)
    assert not fits(model, grammars, grammar, TIME)
    assert not fits(model, grammars, grammar, f"{WEATHER}\n{WEATHER}")


def test_a_format_leaves_the_choice_to_call_a_tool(model: Model, grammars: Grammars) -> None:
    grammar = grammar_of(tools=TOOLS, response_format=SCHEMA)
    for text in ('{"city": "Rome", "days": 1}', '{"city":"Rome","days":1}', TIME):
        assert fits(model, grammars, grammar, text)
    none = grammar_of(tools=TOOLS, tool_choice="none", response_format=SCHEMA)
    assert not fits(model, grammars, none, TIME)
    assert not fits(model, grammars, grammar, '{"city": "Rome"}')


def test_thoughts_come_before_the_form(model: Model, grammars: Grammars) -> None:
    """Field case B03."""
    form = {"type": "json_object"}
    thoughtful = grammar_of(Manner(may_think=True), response_format=form)
    assert fits(model, grammars, thoughtful, "{}")
    assert fits(model, grammars, thoughtful, '<think>\nCould be {"a": 1}</think>\n\n{}')
    assert not fits(model, grammars, thoughtful, "<think>never ends {}")
    begun = grammar_of(Manner(may_think=True, thinking=True), response_format=form)
    assert fits(model, grammars, begun, "so it is\n</think>\n{}")
    assert not fits(model, grammars, begun, "{}")


def test_marks_may_be_control_tokens(tmp_path: Path) -> None:
    """They are drawn as what they are, and stay in the text that calls and thoughts are read from."""
    model = with_control_marks(tmp_path)
    template = Template(model.tokenizer)
    assert template.control_marks == MARKS
    assert template.thinks
    grammars = Grammars(model.tokenizer, model.vocabulary_size, model.eos_token_ids)
    manner = Manner(may_think=True, control_marks=template.control_marks)
    grammar = grammar_of(manner, tools=TOOLS, tool_choice=NAMED)
    assert fits(model, grammars, grammar, WEATHER)
    assert fits(model, grammars, grammar, f"<think>Which < city?</think>\n{WEATHER}")
    assert not fits(model, grammars, grammar, f"<think>Which city? {WEATHER}")
    begun = grammar_of(replace(manner, thinking=True), tools=TOOLS, tool_choice=NAMED)
    assert fits(model, grammars, begun, f"Cologne.</think>{WEATHER}")

    scheduler = Scheduler(model, Limits())
    adapters = Adapters(tmp_path, "base", model.targets, model.device, model.dtype)
    engine = Engine("base", model, template, adapters, scheduler, grammars)
    thought = {"structured_outputs": {"grammar": 'start: <think> "so" </think> "yes"'}}

    async def replies() -> list[Json]:
        called = {"structured_outputs": {"grammar": CONTROL_CALL}}
        bodies = [chat_body(tools=TOOLS, max_tokens=200, **fields) for fields in (thought, called)]
        chats = [await chat.accept(engine, ChatRequest.model_validate(body)) for body in bodies]
        return [json.loads((await chat.answer(c)).model_dump_json())["choices"][0]["message"] for c in chats]

    scheduler.start()
    try:
        thoughtful, calling = asyncio.run(replies())
    finally:
        scheduler.close()
    assert (thoughtful["reasoning"], thoughtful["content"]) == ("so", "yes")
    assert said(calling) == (None, [("get_time", "{}")])


def with_control_marks(folder: Path) -> Model:
    """The tiny model with the four marks added to its vocabulary as control tokens."""
    build_tiny_model(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken(mark, special=True) for mark in sorted(MARKS)], special_tokens=True)
    tokenizer.save_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder)
    network.resize_token_embeddings(len(tokenizer))
    network.save_pretrained(folder)
    return load_model(str(folder), None)


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "required": ({"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}, "tool_calls"),
    "named": ({"tools": TOOLS, "tool_choice": NAMED}, "stop"),
    "schema": ({"response_format": SCHEMA}, "stop"),
    "regex": ({"structured_outputs": {"regex": "[ab]{2}/c"}}, "stop"),
    "choice": ({"structured_outputs": {"choice": ["yes", "no, never"]}}, "stop"),
    "grammar": ({"structured_outputs": {"grammar": 'start: "ab" "c"'}}, "stop"),
    "gbnf": ({"structured_outputs": {"grammar": 'root ::= "ab" [c]'}}, "stop"),
    "json": ({"structured_outputs": {"json": json.dumps(CITY)}}, "stop"),
    "guided": ({"guided_json": CITY}, "stop"),
}  # fmt: skip


def said(message: Json) -> tuple[str | None, list[tuple[str, str]]]:
    calls = message.get("tool_calls") or ()
    return message["content"], [(c["function"]["name"], c["function"]["arguments"]) for c in calls]


def check_form(case: str, message: Json) -> None:
    content, calls = said(message)
    if case in ("required", "named"):
        ((name, arguments),) = calls
        assert content is None
        assert name in ("get_weather", "get_time")
        assert case == "required" or name == "get_weather"
        check_city(json.loads(arguments)) if name == "get_weather" else None
        return
    assert content is not None
    if case == "regex":
        assert content in ("aa/c", "ab/c", "ba/c", "bb/c")
    elif case == "choice":
        assert content in ("yes", "no, never")
    elif case in ("grammar", "gbnf"):
        assert content == "abc"
    else:
        check_city(json.loads(content))


def check_city(value: Json) -> None:
    assert set(value) == {"city", "days"}
    assert value["city"] in ("Köln", "Rome")
    assert value["days"] in range(10)


def test_every_reply_has_the_form_it_was_asked_for(serve: Serve) -> None:
    """All at once, greedy and sampled, beside a free reply that must stay what it is alone."""
    served = serve()
    free = chat_body(max_tokens=60, return_token_ids=True)
    alone = served.post("/v1/chat/completions", free)["choices"][0]["token_ids"]
    asked = [
        (case, chat_body(**fields, **draw, max_tokens=200, return_token_ids=True), finish)
        for case, (fields, finish) in CASES.items()
        for draw in ({"temperature": 0}, SAMPLED)
    ]

    async def together() -> list[Json]:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=300, trust_env=False) as http:
            bodies = [free, *(body for _, body, _ in asked)]
            answers = await asyncio.gather(*(http.post("/v1/chat/completions", json=b) for b in bodies))
        return [answer.json()["choices"][0] for answer in answers]

    first, *choices = asyncio.run(together())
    assert first["token_ids"] == alone
    assert first["forced_token_mask"] is None
    for (case, _, finish), choice in zip(asked, choices, strict=True):
        check_form(case, choice["message"])
        assert choice["finish_reason"] == finish, case
        assert choice["token_ids"][-1] == 2
        assert len(choice["forced_token_mask"]) == len(choice["token_ids"])
        assert choice["forced_token_mask"][-1]


@pytest.mark.parametrize("case", ["required", "named", "schema"])
def test_a_forced_stream_adds_up_to_the_plain_answer(serve: Serve, case: str) -> None:
    served = serve()
    fields = {**CASES[case][0], "max_tokens": 200, "return_token_ids": True}
    choice = served.chat(**fields)["choices"][0]
    parts = [c for chunk in served.chunks(**fields) for c in chunk["choices"]]
    content, calls = said(choice["message"])
    assert "".join(part["delta"].get("content") or "" for part in parts) == (content or "")
    deltas = [d for part in parts for d in part["delta"].get("tool_calls") or ()]
    assert "".join(d["function"]["arguments"] for d in deltas) == "".join(a for _, a in calls)
    assert [d["function"]["name"] for d in deltas if "id" in d] == [name for name, _ in calls]
    assert [i for part in parts for i in part.get("token_ids") or ()] == choice["token_ids"]
    marks = [m for part in parts for m in part.get("forced_token_mask") or ()]
    assert marks == choice["forced_token_mask"]
    assert parts[-1]["finish_reason"] == choice["finish_reason"]


def test_logprobs_stay_those_of_the_model(serve: Serve) -> None:
    """What is reported is the raw distribution, although a masked one was drawn from."""
    served = serve()
    answer = served.chat(**CASES["schema"][0], max_tokens=200, logprobs=True, return_token_ids=True)
    choice = answer["choices"][0]
    ids = answer["prompt_token_ids"] + choice["token_ids"]
    scored = served.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 0})
    records = scored["choices"][0]["prompt_logprobs"][len(answer["prompt_token_ids"]) :]
    plain = [record[str(i)]["logprob"] for i, record in zip(choice["token_ids"], records, strict=True)]
    told = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert told == pytest.approx(plain, abs=1e-3)
    # The tiny model would have said something else.
    assert any(record[str(i)]["rank"] > 1 for i, record in zip(choice["token_ids"], records, strict=True))


@pytest.mark.parametrize("fields", [CASES["named"][0], CASES["schema"][0]])
def test_a_reply_cut_off_in_its_form_says_so(serve: Serve, fields: dict[str, Any]) -> None:
    served = serve()
    choice = served.chat(**fields, max_tokens=8)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert not choice["message"].get("tool_calls")
    assert choice["message"]["content"]
    parts = [c for chunk in served.chunks(**fields, max_tokens=8) for c in chunk["choices"]]
    assert parts[-1]["finish_reason"] == "length"
    assert "".join(p["delta"].get("content") or "" for p in parts) == choice["message"]["content"]


@pytest.mark.parametrize("fields", [{"ignore_eos": True}, {"min_tokens": 30}, {"n": 2, "temperature": 1.0}])
def test_the_end_of_the_form_is_the_end(serve: Serve, fields: dict[str, Any]) -> None:
    answer = serve().chat(structured_outputs={"choice": ["yes", "no"]}, max_tokens=40, **fields)
    assert {choice["message"]["content"] for choice in answer["choices"]} <= {"yes", "no"}
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}


def test_completions_follow_too(serve: Serve) -> None:
    served = serve()
    body = {"prompt": ["hello", "the user"], "max_tokens": 80, "temperature": 0, "response_format": SCHEMA}
    for choice in served.post("/v1/completions", body)["choices"]:
        check_city(json.loads(choice["text"]))
        assert choice["finish_reason"] == "stop"


def schema_format(schema: Json, strict: bool = True) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "poem"}}, "body.response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": schema_format({"type": "what"})}, "response_format"),
        ({"response_format": schema_format({"not": {"required": ["x"]}})}, "response_format"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": "nonsense"}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": "root ::= ("}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
        (
            {"structured_outputs": {"json": {}, "disable_additional_properties": True}},
            "structured_outputs.disable_additional_properties",
        ),
        ({"guided_regex": "("}, "guided_regex"),
        (
            {
                "tools": [{"function": {"name": "f", "parameters": {"type": "string"}}}],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_cannot_be_followed_is_refused_by_its_field(
    serve: Serve, fields: Json, param: str, stream: bool
) -> None:
    response = serve().http.post("/v1/chat/completions", json=chat_body(**fields, stream=stream))
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, 400)


def test_keywords_that_cannot_be_held_bind_only_strict_forms(model: Model, grammars: Grammars) -> None:
    loose = grammar_of(response_format=schema_format({"type": "object", "not": {"required": ["x"]}}, False))
    assert fits(model, grammars, loose, "{}")
