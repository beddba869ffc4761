"""Replies in a form that the request demands: schemas, expressions, choices, grammars."""

import json

import pytest
from tests.engine_contract.engine import Engine, Json, chat_body, completion_body
from tests.engine_contract.reference import largest_difference, teacher_forced
from tests.engine_contract.test_chat import chat_text, sampled_ids
from tests.engine_contract.test_refusals import refused

TRIP = {
    "type": "object",
    "properties": {"to": {"enum": ["sea", "moon"]}, "ships": {"type": "array", "maxItems": 0}},
    "required": ["to", "ships"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "trip", "schema": TRIP, "strict": True}}
FORMS = {
    "format": {"response_format": FORMAT},
    "json": {"structured_outputs": {"json": TRIP}},
    "regex": {"structured_outputs": {"regex": "(sea|moon)-[0-9]{2}"}},
    "choice": {"structured_outputs": {"choice": ["sea", "the moon"]}},
    "grammar": {"structured_outputs": {"grammar": 'root ::= "to the " ("sea" | "moon")'}},
}  # fmt: skip


def fits(form: str, text: str) -> bool:
    if form in ("format", "json"):
        return json.loads(text) in ({"to": "sea", "ships": []}, {"to": "moon", "ships": []})
    if form == "regex":
        return text[:-2] in ("sea-", "moon-") and text[-2:].isdigit()
    return text in {"choice": ("sea", "the moon"), "grammar": ("to the sea", "to the moon")}[form]


def lost_in_white_space(engine: Engine, choice: Json) -> bool:
    """vLLM lets a model write white space inside JSON until it is cut off; the tiny one does."""
    text = choice["message"]["content"]
    return engine.kind == "vllm" and choice["finish_reason"] == "length" and text[-20:].isspace()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_reply_has_the_form_and_ends_with_it(weighted: Engine, form: str, temperature: float) -> None:
    asked = {**FORMS[form], "temperature": temperature, "seed": 3, "max_tokens": 300}
    (choice,) = weighted.chat(**asked, return_token_ids=True)["choices"]
    if not lost_in_white_space(weighted, choice):
        assert fits(form, choice["message"]["content"])
        assert choice["finish_reason"] == "stop"
        assert choice["token_ids"][-1] == 2
    events = weighted.chat_events(**asked, return_token_ids=True)
    assert chat_text(events) == choice["message"]["content"]
    assert sampled_ids(events) == choice["token_ids"]


def test_a_completion_has_the_form(weighted: Engine) -> None:
    (choice,) = weighted.complete(**FORMS["choice"], max_tokens=50)["choices"]
    assert choice["text"] in ("sea", "the moon")
    assert choice["finish_reason"] == "stop"


def test_any_object_is_json(weighted: Engine) -> None:
    (choice,) = weighted.chat(response_format={"type": "json_object"}, max_tokens=30)["choices"]
    text = choice["message"]["content"].lstrip()
    assert text.startswith("{")
    assert choice["finish_reason"] == "length" or isinstance(json.loads(text), dict)


def test_a_form_cut_off_says_so(weighted: Engine) -> None:
    (choice,) = weighted.chat(**FORMS["format"], max_tokens=3)["choices"]
    assert choice["finish_reason"] == "length"


def test_logprobs_under_a_form_are_the_models_own(embedded: Engine) -> None:
    """vLLM reports those of what the form left, which no policy can be trained on."""
    assert embedded.model is not None
    body = embedded.chat(**FORMS["regex"], max_tokens=50, logprobs=True, return_token_ids=True)
    (choice,) = body["choices"]
    want = teacher_forced(embedded.model, body["prompt_token_ids"] + choice["token_ids"])
    got = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert largest_difference(got, want[-len(got) :]) <= 1e-3


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "poem"}},
        {"response_format": {"type": "json_schema"}},
        {"structured_outputs": {"regex": "("}},
        {"structured_outputs": {"grammar": "root ::= ("}},
        {"structured_outputs": {"json": "{"}},
        {"structured_outputs": {"regex": "a", "choice": ["b"]}},
    ],
    ids=["type", "no-schema", "regex", "grammar", "json", "two"],
)
def test_a_form_that_cannot_be_followed_is_refused(weighted: Engine, fields: Json) -> None:
    error = refused(weighted.post("/v1/chat/completions", chat_body(**fields)), 400)
    if weighted.kind == "embedded":
        assert next(iter(fields)) in error["param"]
    refused(weighted.post("/v1/completions", completion_body(**fields)), 400)
