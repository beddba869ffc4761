"""Failures in Anthropic's shape, in the words its clients look for."""

import anthropic
import pytest

from afterturn_engine.scripted import Failure, Reply, Script

from .test_messages import ASK, TOOLS, events_in

RESULT = {"type": "tool_result", "tool_use_id": "t1"}
WRONG = [
    ({}, 400, "model"),
    ({"model": "default", "max_tokens": 5}, 400, "messages"),
    ({**ASK, "messages": []}, 400, "messages"),
    ({**ASK, "messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
    (
        {**ASK, "messages": [{"role": "user", "content": [{"type": "foo"}]}]},
        400,
        "messages[0].content[0].type",
    ),
    (
        {**ASK, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        400,
        "messages[0].content[0].tool_use_id",
    ),
    *(
        (
            {**ASK, "messages": [{"role": "user", "content": [{**RESULT, "content": odd}]}]},
            400,
            "messages[0].content[0].content",
        )
        for odd in (5, {"a": 1}, ["a"])
    ),
    ({k: v for k, v in ASK.items() if k != "max_tokens"}, 400, "max_tokens"),
    ({**ASK, "max_tokens": 0}, 400, "max_tokens"),
    ({**ASK, "temperature": "hot"}, 400, "temperature"),
    ({**ASK, "stop_sequences": "x"}, 400, "stop_sequences"),
    ({**ASK, "tools": TOOLS, "tool_choice": {"type": "tool", "name": "nope"}}, 400, "tool_choice"),
    ({**ASK, "model": "nope"}, 404, "nope"),
]


def check(response, status, kind, says=""):
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert body.keys() == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    assert body["error"]["type"] == kind
    assert says in body["error"]["message"]


@pytest.mark.parametrize("streamed", [False, True])
def test_b18_errors_have_anthropics_shape(stack, streamed):
    """B18"""
    kinds = {400: "invalid_request_error", 404: "not_found_error"}
    with stack.client() as client:
        for body, status, says in WRONG:
            sent = {"stream": True, **body} if streamed else body
            check(client.post("/v1/messages", json=sent), status, kinds[status], says)
        for content in (b"", b"not json", b"[1,2]", b'{"n": NaN}', b"[" * 100_000):
            check(client.post("/v1/messages", content=content), 400, "invalid_request_error")
        check(client.get("/v1/messages"), 405, "invalid_request_error")
        check(client.post("/v1/messages/nothing", json={}), 404, "not_found_error")
        check(
            client.get("/v1/models/nope", headers={"anthropic-version": "2023-06-01"}), 404, "not_found_error"
        )
        client.headers["Authorization"] = "Bearer nobody"
        check(client.post("/v1/messages", json=ASK), 401, "authentication_error")
        check(client.post("/v1/messages", json={}), 401, "authentication_error")
        check(client.post("/v1/messages/count_tokens", json=ASK), 401, "authentication_error")
    with stack.client(stack.add_key("default", ("feedback",))) as client:
        check(client.post("/v1/messages", json=ASK), 403, "permission_error")
    with stack.client(stack.add_key("default", requests_per_minute=1)) as client:
        assert client.post("/v1/messages", json=ASK).status_code == 200
        refused = client.post("/v1/messages", json=ASK)
        check(refused, 429, "rate_limit_error")
        assert int(refused.headers["retry-after"]) >= 1
    with pytest.raises(anthropic.NotFoundError):
        stack.anthropic().messages.create(**{**ASK, "model": "nope"})


def test_a_prompt_that_is_too_long_is_told_in_the_words_clients_look_for(start):
    with start(Script(context_length=64)) as stack, stack.client() as client:
        long = {**ASK, "messages": [{"role": "user", "content": "word " * 100}]}
        check(client.post("/v1/messages", json=long), 400, "invalid_request_error", "prompt is too long")
        assert client.post("/v1/messages", json={**ASK, "max_tokens": 32000}).status_code == 200


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (Failure(kind="status", status=500), 502, "api_error"),
        (Failure(kind="status", status=503, retry_after_s=7), 503, "overloaded_error"),
    ],
)
def test_an_engine_that_fails_first(start, failure, status, kind):
    with start(Script(replies=(Reply(failure=failure),))) as stack, stack.client() as client:
        for streamed in (False, True):
            response = client.post("/v1/messages", json={**ASK, "stream": streamed})
            check(response, status, kind)
            assert response.headers.get("retry-after") == ("7" if status == 503 else None)


@pytest.mark.parametrize("kind", ["cut", "stream_error"])
def test_an_engine_that_fails_in_the_middle_ends_with_an_error_event(start, kind):
    failing = Reply(pieces=("a", "b", "c"), failure=Failure(kind=kind, after_pieces=2))
    with start(Script(replies=(failing,))) as stack:
        with stack.client() as client:
            response = client.post("/v1/messages", json={**ASK, "stream": True})
        assert response.status_code == 200
        events = events_in(response.text)
        assert events[-1]["type"] == "error"
        assert events[-1]["error"]["type"] == "api_error"
        assert not [event for event in events if event["type"] == "message_stop"]
        assert stack.turn(response.headers["x-turn-id"])["excluded_reason"] == "engine_failed"
        with pytest.raises(anthropic.APIStatusError), stack.anthropic().messages.stream(**ASK) as stream:
            stream.get_final_message()
