"""Field case B35: what is counted, and where it is told."""

import pytest
from tests.engine_contract.engine import Engine, chat_body, completion_body
from tests.engine_contract.test_chat import sampled_ids
from tests.engine_contract.test_refusals import refused


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_no_chunk_has_usage_unless_asked(engine: Engine, options: object) -> None:
    fields = {} if options == {} else {"stream_options": options}
    events = engine.chat_events(**fields)
    assert all(event["choices"] for event in events)
    assert not any(event.get("usage") for event in events)


def test_a_prompt_is_counted_once_however_many_replies(engine: Engine) -> None:
    asked = {"n": 2, "temperature": 1.0, "seed": 7, "return_token_ids": True}
    body = engine.chat(**asked)
    sampled = sum(len(choice["token_ids"]) for choice in body["choices"])
    assert body["usage"]["prompt_tokens"] == len(body["prompt_token_ids"])
    assert body["usage"]["completion_tokens"] == sampled
    *events, last = engine.chat_events(**asked, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == body["usage"]["prompt_tokens"]
    assert last["usage"]["completion_tokens"] == sum(len(sampled_ids(events, index)) for index in (0, 1))


def test_usage_is_the_same_however_it_is_told(engine: Engine) -> None:
    for limit in (1, 24):
        whole = engine.chat(max_tokens=limit, return_token_ids=True)
        events = engine.chat_events(max_tokens=limit, stream_options={"include_usage": True})
        told = events[-1]["usage"]
        assert {key: told[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
            key: whole["usage"][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")
        }
        assert whole["usage"]["completion_tokens"] == len(whole["choices"][0]["token_ids"]) <= limit


def test_a_prompt_seen_before_costs_what_it_did(engine: Engine) -> None:
    first, second = (engine.chat(max_tokens=2)["usage"] for _ in range(2))
    assert first["prompt_tokens"] == second["prompt_tokens"]


def test_stream_options_belong_to_streams(engine: Engine) -> None:
    options = {"include_usage": True}
    error = refused(engine.post("/v1/chat/completions", chat_body(stream_options=options)), 400)
    assert error["param"] == "stream_options"
    error = refused(engine.post("/v1/completions", completion_body(stream_options=options)), 400)
    assert error["param"] == "stream_options"
