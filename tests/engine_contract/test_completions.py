"""Text completions: what the trainer and the gate score prompts with."""

import pytest
from tests.engine_contract.engine import Engine


def test_a_completion_has_openai_form_and_its_ids(engine: Engine) -> None:
    body = engine.complete(return_token_ids=True, logprobs=0)
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    (choice,) = body["choices"]
    assert isinstance(choice["text"], str)
    assert choice["finish_reason"] in ("stop", "length")
    assert body["usage"]["prompt_tokens"] == len(choice["prompt_token_ids"])
    assert body["usage"]["completion_tokens"] == len(choice["token_ids"])
    logprobs = choice["logprobs"]
    count = len(choice["token_ids"])
    assert [len(logprobs[key]) for key in ("tokens", "token_logprobs", "text_offset", "top_logprobs")] == [
        count
    ] * 4
    assert all(value <= 0 for value in logprobs["token_logprobs"])


def test_ids_as_a_prompt_are_taken_as_they_are(engine: Engine) -> None:
    (told,) = engine.complete(return_token_ids=True)["choices"]
    (by_ids,) = engine.complete(prompt=told["prompt_token_ids"], return_token_ids=True)["choices"]
    assert by_ids["prompt_token_ids"] == told["prompt_token_ids"]
    assert by_ids["token_ids"] == told["token_ids"]
    assert by_ids["text"] == told["text"]


def test_several_prompts_give_choices_numbered_through(engine: Engine) -> None:
    singles = [
        engine.complete(prompt=p, return_token_ids=True)["choices"][0] for p in ("the sea", "a star of")
    ]
    both = engine.complete(prompt=[choice["prompt_token_ids"] for choice in singles], return_token_ids=True)
    assert [choice["index"] for choice in both["choices"]] == [0, 1]
    for together, alone in zip(both["choices"], singles, strict=True):
        assert together["prompt_token_ids"] == alone["prompt_token_ids"]
        assert together["token_ids"] == alone["token_ids"]


@pytest.mark.parametrize("beside", [0, 1])
def test_prompt_logprobs_have_one_record_a_position(engine: Engine, beside: int) -> None:
    (choice,) = engine.complete(prompt_logprobs=beside, max_tokens=1, return_token_ids=True)["choices"]
    records = choice["prompt_logprobs"]
    assert len(records) == len(choice["prompt_token_ids"])
    assert records[0] is None
    for token_id, record in zip(choice["prompt_token_ids"][1:], records[1:], strict=True):
        assert record[str(token_id)]["logprob"] <= 0
        assert record[str(token_id)]["rank"] >= 1
        assert isinstance(record[str(token_id)]["decoded_token"], str)
        assert len(record) <= 1 + beside


def test_without_being_asked_there_are_no_prompt_logprobs(engine: Engine) -> None:
    assert engine.complete()["choices"][0]["prompt_logprobs"] is None


def test_a_streamed_completion_says_what_the_whole_one_says(engine: Engine) -> None:
    (whole,) = engine.complete(return_token_ids=True, logprobs=0)["choices"]
    *events, last = engine.completion_events(
        return_token_ids=True, logprobs=0, stream_options={"include_usage": True}
    )
    choices = [event["choices"][0] for event in events]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [token_id for choice in choices for token_id in choice["token_ids"]] == whole["token_ids"]
    tokens = [token for choice in choices for token in choice["logprobs"]["tokens"]]
    assert tokens == whole["logprobs"]["tokens"]
    assert choices[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert not any(choice["prompt_token_ids"] for choice in choices[1:])
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == len(whole["token_ids"])
