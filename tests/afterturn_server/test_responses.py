"""The responses protocol: every event in order, and the turn is a turn like any other."""

import json

import openai
import pytest

from afterturn_engine.scripted import Failure, Reply, Script, ToolCall

from .protocols import user

ASK = {"model": "default", "input": "hi"}
TOOLS = [
    {"type": "function", "name": "get_time", "parameters": {"type": "object"}, "strict": False},
    {"type": "web_search"},
    {"type": "namespace", "name": "mcp", "tools": []},
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
]
CALLS = (
    ToolCall(name="get_time", arguments='{"city":  "Oslo"}', id="call_1"),
    ToolCall(name="get_time", arguments="{}", id="call_2"),
)
WHOLE = [
    Reply(content="Hello there, you."),
    Reply(content=""),
    Reply(content="Let me look.", tool_calls=CALLS),
    Reply(reasoning="What do they want?", content="An answer."),
    Reply(reasoning="A call.", tool_calls=CALLS[:1]),
]


def events_in(text):
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append(json.loads(lines["data"]))
            assert lines["event"] == found[-1]["type"]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def bare(response):
    """A response without what differs from one to the next."""
    text = json.dumps(response).replace(response["id"].partition("_")[2], "ID")
    return {**json.loads(text), "created_at": 0}


def test_a_response_and_its_turn(stack):
    raw = stack.openai().responses.with_raw_response.create(
        **ASK, instructions="Be brief.", metadata={"a": "b"}
    )
    response = raw.parse()
    turn = stack.turn(raw.headers["x-turn-id"])
    assert (response.output_text, response.status, response.model) == ("hi", "completed", "default")
    assert response.metadata == {"a": "b"}
    assert (turn["protocol"], turn["response_id"], turn["state"]) == ("responses", response.id, "open")
    assert turn["request"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert turn["original"]["items"] == [{"type": "message", "role": "user", "content": "hi"}]
    assert turn["original"]["fields"] == {
        "model": "default", "instructions": "Be brief.", "metadata": {"a": "b"},
    }  # fmt: skip
    assert response.usage.input_tokens == len(turn["prompt_token_ids"])
    assert response.usage.output_tokens == len(turn["token_ids"]) == len(turn["logprobs"])
    assert not stack.engine.received[-1].body.keys() & {"input", "instructions", "metadata", "store"}


@pytest.mark.parametrize("reply", WHOLE)
def test_the_events_build_the_whole_response(start, reply):
    """B13"""
    with start(Script(replies=(reply,))) as stack:
        with stack.client() as client:
            whole = client.post("/v1/responses", json={**ASK, "tools": TOOLS}).json()
            events = events_in(
                client.post("/v1/responses", json={**ASK, "tools": TOOLS, "stream": True}).text
            )
            stored = client.get(f"/v1/responses/{whole['id']}").json()
        kinds = [event["type"] for event in events]
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        assert bare(events[-1]["response"]) == bare(whole)
        assert {**stored, "tools": 0} == {**whole, "tools": 0}
        with stack.openai().responses.stream(**ASK, tools=TOOLS) as stream:
            for _ in stream:
                pass
            built = stream.get_final_response()
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    assert [item.type for item in built.output] == [item["type"] for item in whole["output"]]
    for index, item in enumerate(done):
        mine = [event for event in events if event.get("output_index") == index]
        deltas = "".join(event["delta"] for event in mine if event["type"].endswith(".delta"))
        if item["type"] == "function_call":
            assert deltas == item["arguments"]
        else:
            assert deltas == item["content"][0]["text"]
        assert mine[0]["type"] == "response.output_item.added"
        assert mine[-1]["type"] == "response.output_item.done"


@pytest.mark.parametrize("stored", [True, False])
def test_calls_and_results_are_the_history_of_one_conversation(start, stored):
    replies = (
        Reply(reasoning="Look.", content="Let me look.", tool_calls=CALLS, times=1),
        Reply(content="Noon."),
    )
    with start(Script(replies=replies)) as stack:
        client = stack.openai()
        first = client.responses.with_raw_response.create(
            **ASK, tools=TOOLS, instructions="Be brief.", include=["reasoning.encrypted_content"]
        )
        said = first.parse()
        results = [
            {"type": "function_call_output", "call_id": "call_2", "output": "11:00"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "x"}],
            },
        ]
        if stored:
            ask = {"previous_response_id": said.id, "input": results}
        else:
            echoed = [item.to_dict() for item in said.output]
            echoed[0]["content"] = []  # some clients keep the sealed form alone
            ask = {"input": [{"role": "user", "content": "hi"}, *echoed, *results]}
        second = client.responses.with_raw_response.create(model="default", tools=TOOLS, **ask)
        third = client.responses.create(
            model="default", previous_response_id=second.parse().id, input="and now?"
        )
        turn, before = (stack.turn(raw.headers["x-turn-id"]) for raw in (second, first))
        last = stack.engine.received[-1].body["messages"]
    assert third.previous_response_id == second.parse().id
    assert turn["parent_id"] == before["id"]
    messages = turn["request"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1]["reasoning"] == "Look."
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"city":  "Oslo"}'
    assert {piece["text"] for piece in before["next_state"]} == {"11:00", "x"}
    assert [message["role"] for message in last] == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_what_codex_sends_is_understood(stack):
    body = {
        "model": "default",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"content": 5}},
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
        ],
        "tools": TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s1",
        "client_metadata": {"session_id": "s1"},
        "min_p": 0.1,
    }
    with stack.client() as client:
        response = client.post("/v1/responses", json=body)
    assert events_in(response.text)[-1]["type"] == "response.completed"
    sent = stack.engine.received[-1].body
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get_time"]
    assert (sent["reasoning_effort"], sent["min_p"], sent["tool_choice"]) == ("high", 0.1, "auto")
    assert not sent.keys() & {"store", "include", "prompt_cache_key", "client_metadata", "input", "reasoning"}
    # What was made with `store` off is a turn, and is not given out again.
    response_id = events_in(response.text)[-1]["response"]["id"]
    with stack.client() as client:
        assert client.get(f"/v1/responses/{response_id}").status_code == 404
    assert stack.admin("GET", "turns").json()["data"][0]["state"] == "open"


def test_choices_reach_the_engine(stack):
    client = stack.openai()
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    client.responses.create(
        **ASK,
        tools=TOOLS,
        tool_choice={"type": "function", "name": "get_time"},
        max_output_tokens=7,
        text={"format": {"type": "json_schema", "name": "out", "schema": schema, "strict": True}},
    )
    sent = stack.engine.received[-1].body
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "get_time"}}
    assert sent["max_tokens"] == 7
    assert sent["response_format"]["json_schema"] == {"name": "out", "schema": schema, "strict": True}


def test_logprobs_are_given_to_those_who_ask(stack):
    with stack.client() as client:
        asked = {**ASK, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
        part = client.post("/v1/responses", json=asked).json()["output"][0]["content"][0]
        quiet = client.post("/v1/responses", json=ASK).json()["output"][0]["content"][0]
        streamed = events_in(client.post("/v1/responses", json={**asked, "stream": True}).text)
    assert part["logprobs"][0].keys() >= {"token", "logprob", "top_logprobs"}
    assert quiet["logprobs"] == []
    deltas = [event["logprobs"] for event in streamed if event["type"] == "response.output_text.delta"]
    assert all(deltas)


def test_a_response_that_was_cut_is_incomplete(stack):
    with stack.client() as client:
        whole = client.post("/v1/responses", json={**ASK, "input": "one two", "max_output_tokens": 1}).json()
        events = events_in(
            client.post(
                "/v1/responses", json={**ASK, "input": "one two", "max_output_tokens": 1, "stream": True}
            ).text
        )
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert events[-1]["type"] == "response.incomplete"
    assert bare(events[-1]["response"]) == bare(whole)


WRONG = [
    ({}, "model"),
    ({"model": "default"}, "input"),
    ({**ASK, "input": 5}, "input"),
    ({**ASK, "input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
    ({**ASK, "input": [{"type": "message", "content": "x"}]}, "input[0].role"),
    ({**ASK, "input": [{"role": "user", "content": [{"type": "foo"}]}]}, "input[0].content[0].type"),
    ({**ASK, "input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    (
        {**ASK, "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input[0].content[0]",
    ),
    ({**ASK, "max_output_tokens": 0}, "max_output_tokens"),
    ({**ASK, "temperature": "hot"}, "temperature"),
    ({**ASK, "background": True}, "background"),
    ({**ASK, "conversation": "c"}, "conversation"),
    ({**ASK, "previous_response_id": "resp_x"}, "previous_response_id"),
    ({**ASK, "tools": TOOLS, "tool_choice": {"type": "function", "name": "nope"}}, "tool_choice"),
    ({**ASK, "text": {"format": {"type": "grammar"}}}, "text.format"),
]


@pytest.mark.parametrize("streamed", [False, True])
def test_b18_wrong_requests_name_the_field(stack, streamed):
    """B18"""
    with stack.client() as client:
        for body, param in WRONG:
            response = client.post("/v1/responses", json={"stream": True, **body} if streamed else body)
            assert response.status_code == 400, response.text
            assert response.json()["error"]["param"] == param, response.text
        refused = client.post("/v1/responses", json={**ASK, "model": "nope"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        client.headers["Authorization"] = "Bearer nobody"
        assert client.post("/v1/responses", json={}).status_code == 401
        assert client.post("/v1/responses", json={**ASK, "previous_response_id": "x"}).status_code == 401
    with pytest.raises(openai.BadRequestError):
        stack.openai().responses.create(**{**ASK, "temperature": 5})


def test_an_item_may_be_named_instead_of_sent(stack):
    first = stack.openai().responses.create(**ASK)
    named = [user("hi"), {"type": "item_reference", "id": first.output[0].id}, user("more")]
    second = stack.openai().responses.with_raw_response.create(model="default", input=named)
    turn = stack.turn(second.headers["x-turn-id"])
    assert [message["content"] for message in turn["request"]["messages"]] == ["hi", "hi", "more"]
    assert stack.turn(turn["parent_id"])["response_id"] == first.id
    other = stack.openai(stack.add_key("other"))
    for client, item_id in ((other, first.output[0].id), (stack.openai(), "msg_x_0"), (stack.openai(), "x")):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(
                model="base", input=[user("hi"), {"type": "item_reference", "id": item_id}]
            )
        assert caught.value.param == "input[1].id"


def test_a_response_belongs_to_its_key(stack):
    mine = stack.openai().responses.create(**ASK)
    other = stack.openai(stack.add_key("other"))
    with pytest.raises(openai.NotFoundError):
        other.responses.retrieve(mine.id)
    with pytest.raises(openai.BadRequestError):
        other.responses.create(model="other", input="x", previous_response_id=mine.id)
    assert stack.openai().responses.retrieve(mine.id).output_text == "hi"
    with pytest.raises(openai.NotFoundError):
        other.responses.delete(mine.id)
    stack.openai().responses.delete(mine.id)
    assert stack.admin("GET", "turns").json()["data"] == []


@pytest.mark.parametrize("kind", ["cut", "stream_error"])
def test_an_engine_that_fails_in_the_middle_ends_with_a_failed_response(start, kind):
    failing = Reply(pieces=("a", "b", "c"), failure=Failure(kind=kind, after_pieces=2))
    with start(Script(replies=(failing,))) as stack, stack.client() as client:
        response = client.post("/v1/responses", json={**ASK, "stream": True})
        events = events_in(response.text)
        turn = stack.turn(response.headers["x-turn-id"])
        stored = client.get(f"/v1/responses/{events[0]['response']['id']}").json()
    assert (stored["status"], stored["output"]) == ("failed", events[-1]["response"]["output"])
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "ab"
    assert "scripted failure" not in response.text
    assert turn["excluded_reason"] == "engine_failed"


def test_a_prompt_that_is_too_long_is_told_about_the_input(start):
    with start(Script(context_length=64)) as stack, stack.client() as client:
        refused = client.post("/v1/responses", json={**ASK, "input": "word " * 100})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert refused.json()["error"]["param"] == "input"
