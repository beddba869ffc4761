"""Text completions: what vLLM answers, and a turn for each choice of each prompt."""

import openai
import pytest

from afterturn_engine.scripted import Failure, Reply, Script

ASK = {"model": "default", "prompt": "once upon", "max_tokens": 50}


def test_a_completion_and_its_turn(stack):
    raw = stack.openai().completions.with_raw_response.create(**ASK)
    completion = raw.parse()
    turn = stack.turn(raw.headers["x-turn-id"])
    assert (completion.choices[0].text, completion.model) == ("once upon", "default")
    assert completion.choices[0].logprobs is None
    assert "token_ids" not in completion.choices[0].to_dict()
    assert (turn["protocol"], turn["response_id"], turn["state"]) == ("completions", completion.id, "open")
    assert turn["request"]["messages"] == [{"role": "user", "content": "once upon"}]
    assert turn["reply"] == {"role": "assistant", "content": "once upon"}
    assert len(turn["token_ids"]) == len(turn["logprobs"]) == completion.usage.completion_tokens
    assert len(turn["prompt_token_ids"]) == completion.usage.prompt_tokens


@pytest.mark.parametrize("logprobs", [None, 1])
@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_says_and_records_the_same(stack, echo, logprobs):
    given = {**ASK, "echo": echo} | ({} if logprobs is None else {"logprobs": logprobs})
    client = stack.openai()
    whole = client.completions.create(**given)
    text = "".join(chunk.choices[0].text for chunk in client.completions.create(**given, stream=True))
    assert text == whole.choices[0].text == ("once upon" * 2 if echo else "once upon")
    streamed, recorded = stack.admin("GET", "turns").json()["data"]
    for name in ("token_ids", "logprobs", "prompt_token_ids", "reply", "state"):
        assert streamed[name] == recorded[name]
    assert recorded["state"] == "open"
    scores = whole.choices[0].logprobs
    assert (scores is None) == (logprobs is None)
    if scores is not None:
        assert "".join(scores.tokens).startswith(text)


def test_each_choice_of_each_prompt_is_a_turn(stack):
    """B35"""
    with stack.client() as client:
        body = client.post(
            "/v1/completions", json={**ASK, "prompt": ["one", "two"], "n": 2, "temperature": 1}
        ).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    turns = stack.admin("GET", "turns").json()["data"]
    assert sorted(turn["request"]["messages"][0]["content"] for turn in turns) == ["one", "one", "two", "two"]
    assert {turn["session_id"] for turn in turns} == {turns[0]["session_id"]}
    assert all(turn["parent_id"] is None for turn in turns)
    firsts = [turn for turn in turns if turn["attempt_of"] is None]
    assert sorted(turn["request"]["messages"][0]["content"] for turn in firsts) == ["one", "two"]
    assert body["usage"]["completion_tokens"] == sum(len(turn["token_ids"]) for turn in turns)


def test_a_prompt_of_token_ids_and_a_stop(stack):
    ids = stack.turn(stack.openai().completions.with_raw_response.create(**ASK).headers["x-turn-id"])[
        "prompt_token_ids"
    ]
    raw = stack.openai().completions.with_raw_response.create(**{**ASK, "prompt": ids}, stop=["upon"])
    turn = stack.turn(raw.headers["x-turn-id"])
    assert turn["prompt_token_ids"] == ids
    assert raw.parse().choices[0].text == "once "
    assert turn["finish_reason"] == "stop"


def test_b35_usage_comes_in_one_last_chunk_when_asked_for(stack):
    """B35"""
    client = stack.openai()
    plain = [chunk.to_dict() for chunk in client.completions.create(**ASK, stream=True)]
    assert all("usage" not in chunk for chunk in plain)
    asked = [
        chunk.to_dict()
        for chunk in client.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
    ]
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["completion_tokens"] == 4
    assert all(chunk["usage"] is None for chunk in asked[:-1])


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"n": 0}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": True, "prompt": [5, 6]}, "echo"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_b18_wrong_requests_name_the_field(stack, change, param):
    """B18"""
    with stack.client() as client:
        response = client.post("/v1/completions", json={**ASK, **change})
        assert (response.status_code, response.json()["error"]["param"]) == (400, param), response.text
    assert stack.admin("GET", "turns").json()["data"] == []


def test_an_engine_that_fails_in_the_middle_ends_with_an_error(start):
    failing = Reply(pieces=("a", "b", "c"), failure=Failure(kind="cut", after_pieces=2))
    with start(Script(replies=(failing,))) as stack:
        with pytest.raises(openai.APIError):
            list(stack.openai().completions.create(**ASK, stream=True))
        (turn,) = stack.admin("GET", "turns").json()["data"]
    assert (turn["excluded_reason"], turn["reply"]["content"]) == ("engine_failed", "ab")
