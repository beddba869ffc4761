"""Anthropic's protocol: its stock client gets what it expects, and the turn is a turn like any other."""

import json

import pytest

from afterturn_engine.scripted import Reply, Script, ToolCall

ASK = {"model": "default", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
TOOLS = [
    {"name": "get_time", "description": "the time", "input_schema": {"type": "object", "properties": {}}},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
]
CALLS = (
    ToolCall(name="get_time", arguments='{"city":  "Oslo"}', id="toolu_1"),
    ToolCall(name="get_time", arguments="{}", id="toolu_2"),
)


def events_in(text):
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append(json.loads(lines["data"]))
            assert lines["event"] == found[-1]["type"]
    return found


def test_a_message_and_its_turn(stack):
    raw = stack.anthropic().messages.with_raw_response.create(
        **ASK,
        system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief.", "cache_control": {}}],
    )
    message = raw.parse()
    turn = stack.turn(raw.headers["x-turn-id"])
    assert [block.text for block in message.content] == ["hi"]
    assert (message.model, message.role, message.stop_reason) == ("default", "assistant", "end_turn")
    assert message.id.startswith("msg_")
    assert (turn["protocol"], turn["response_id"], turn["state"]) == ("messages", message.id, "open")
    assert turn["request"]["messages"] == [
        {"role": "system", "content": "Be\nbrief."},
        {"role": "user", "content": "hi"},
    ]
    assert message.usage.input_tokens == len(turn["prompt_token_ids"])
    assert message.usage.output_tokens == len(turn["token_ids"]) == len(turn["logprobs"])
    received = stack.engine.received[-1].body
    assert received["max_tokens"] == 100
    assert "system" not in received


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content="Hello there, you."),
        Reply(content=""),
        Reply(content="Let me look.", tool_calls=CALLS),
        Reply(reasoning="What do they want?", content="An answer."),
        Reply(reasoning="A call.", tool_calls=CALLS[:1]),
    ],
)
def test_the_stock_client_puts_a_stream_together_to_the_whole_message(start, reply):
    """B13"""
    with start(Script(replies=(reply,))) as stack:
        client = stack.anthropic()
        whole = client.messages.create(**ASK, tools=TOOLS)
        with client.messages.stream(**ASK, tools=TOOLS) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_message()
        assert kinds[0] == "message_start"
        assert kinds[-1] == "message_stop"
        for message in (whole, streamed):
            message.id = ""
        assert streamed.to_dict() == whole.to_dict()
        replies = [turn["reply"] for turn in stack.admin("GET", "turns").json()["data"]]
        assert replies[0] == replies[1]


def test_tool_use_comes_back_as_the_history_of_the_same_conversation(start):
    replies = (
        Reply(reasoning="Look.", content="Let me look.", tool_calls=CALLS, times=1),
        Reply(content="Noon."),
    )
    with start(Script(replies=replies)) as stack:
        client = stack.anthropic()
        first = client.messages.with_raw_response.create(**ASK, tools=TOOLS)
        said = first.parse()
        assert said.stop_reason == "tool_use"
        assert [block.type for block in said.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert said.content[2].input == {"city": "Oslo"}
        results = [
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "11:00"}]},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True},
            {"type": "text", "text": "and now?"},
        ]
        history = [
            *ASK["messages"],
            {"role": "assistant", "content": [block.to_dict() for block in said.content]},
            {"role": "user", "content": results},
        ]
        second = client.messages.with_raw_response.create(**{**ASK, "messages": history}, tools=TOOLS)
        turn = stack.turn(second.headers["x-turn-id"])
        before = stack.turn(first.headers["x-turn-id"])
    assert turn["parent_id"] == before["id"]
    assert turn["session_id"] == before["session_id"]
    assert [message["role"] for message in turn["request"]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert turn["request"]["messages"][1]["reasoning"] == "Look."
    assert sorted(piece["text"] for piece in before["next_state"] if piece["role"] == "tool") == [
        "11:00",
        "Error: no such city",
    ]
    assert [tool["function"]["name"] for tool in turn["request"]["tools"]] == ["get_time"]
    sent = stack.engine.received[-1].body
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get_time"]


def test_what_claude_code_sends_is_understood(stack):
    body = {
        **ASK,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
            },
            {"role": "system", "content": [{"type": "text", "text": "<reminder>"}]},
        ],
        "metadata": {"user_id": '{"session_id": "s1"}'},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "output_config": {"effort": "medium"},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "tools": TOOLS,
        "stop_sequences": ["\n\nHuman:"],
        "top_k": 5,
        "min_p": 0.1,
    }
    with stack.client() as client:
        client.headers.pop("Authorization")
        response = client.post("/v1/messages?beta=true", json=body, headers={"x-api-key": stack.key})
    assert response.status_code == 200, response.text
    sent = stack.engine.received[-1].body
    assert [message["role"] for message in sent["messages"]] == ["user", "system"]
    assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("auto", False)
    assert (sent["stop"], sent["top_k"], sent["min_p"]) == (["\n\nHuman:"], 5, 0.1)
    assert not sent.keys() & {"metadata", "thinking", "context_management", "output_config", "system"}


@pytest.mark.parametrize(
    ("change", "field", "sent"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice", "required"),
        ({"tool_choice": {"type": "none"}}, "tool_choice", "none"),
        (
            {"tool_choice": {"type": "tool", "name": "get_time"}},
            "tool_choice",
            {"type": "function", "function": {"name": "get_time"}},
        ),
        ({"thinking": {"type": "disabled"}}, "chat_template_kwargs", {"enable_thinking": False}),
    ],
)
def test_choices_reach_the_engine(stack, change, field, sent):
    with stack.client() as client:
        assert client.post("/v1/messages", json={**ASK, "tools": TOOLS, **change}).status_code == 200
    assert stack.engine.received[-1].body[field] == sent


@pytest.mark.parametrize("streamed", [False, True])
def test_why_a_message_ends(start, streamed):
    with start(Script(replies=(Reply(content="one two three"),))) as stack:

        def ends(**changes):
            body = {**ASK, **changes}
            if streamed:
                with stack.anthropic().messages.stream(**body) as stream:
                    return stream.get_final_message()
            return stack.anthropic().messages.create(**body)

        cut = ends(max_tokens=1)
        stopped = ends(stop_sequences=["two"])
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 1)
    assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == (
        "stop_sequence",
        "two",
        "one ",
    )


def test_a_long_silence_is_filled_with_pings(start):
    slow = Script(replies=(Reply(content="ab", prefill_ms=600),))
    with start(slow, keep_alive_s=0.2) as stack:
        with stack.client() as client:
            response = client.post("/v1/messages", json={**ASK, "stream": True})
        kinds = [event["type"] for event in events_in(response.text)]
        assert kinds[0] == "ping"
        assert kinds[-1] == "message_stop"
        with stack.anthropic().messages.stream(**ASK) as stream:
            assert stream.get_final_text() == "ab"


def test_anthropics_clients_can_list_what_there_is(stack):
    client = stack.anthropic()
    assert [model.id for model in client.models.list()] == ["default", "base"]
    assert client.models.retrieve("default").type == "model"
    with stack.client() as plain:
        assert plain.get("/v1/models").json()["object"] == "list"


def test_tokens_are_counted_by_the_engine_and_nothing_is_recorded(stack):
    client = stack.anthropic()
    counted = client.messages.count_tokens(model="default", messages=ASK["messages"], system="Be brief.")
    message = client.messages.create(**ASK, system="Be brief.")
    assert counted.input_tokens == message.usage.input_tokens
    assert len(stack.admin("GET", "turns").json()["data"]) == 1


def test_the_original_request_is_kept(stack):
    body = {**ASK, "system": [{"type": "text", "text": "Be brief."}], "metadata": {"user_id": "u1"}}
    with stack.client() as client:
        turn_id = client.post("/v1/messages", json=body).headers["x-turn-id"]
    turn = stack.turn(turn_id)
    assert turn["original"]["items"] == ASK["messages"]
    assert turn["original"]["fields"] == {k: v for k, v in body.items() if k != "messages"}


def test_b13_calls_may_hold_any_number(start):
    """B13: also one of more than 64 bits."""
    script = Script(
        replies=(Reply(tool_calls=(ToolCall(name="get_time", arguments='{"a": 36893488147419103232}'),)),)
    )
    with start(script) as stack:
        block = stack.anthropic().messages.create(**ASK, tools=TOOLS).content[0]
    assert block.input == {"a": 2**65}


@pytest.mark.parametrize("strict", [True, False, None])
def test_a_strict_tool_is_a_strict_tool(stack, strict):
    tool = {"name": "get_time", "input_schema": {"type": "object"}}
    given = tool if strict is None else {**tool, "strict": strict}
    stack.anthropic().messages.create(**ASK, tools=[given])
    assert stack.engine.received[-1].body["tools"][0]["function"].get("strict") is strict


@pytest.mark.parametrize("arguments", ["true", "[1]", "here", "  "])
def test_b13_input_that_is_no_object_is_an_empty_one_in_a_stream_too(start, arguments):
    """B13: the stock client parses it as it comes, and would fail."""
    call = ToolCall(name="get_time", arguments=arguments, id="toolu_1")
    with start(Script(replies=(Reply(tool_calls=(call,)),))) as stack:
        client = stack.anthropic()
        whole = client.messages.create(**ASK, tools=TOOLS)
        with client.messages.stream(**ASK, tools=TOOLS) as stream:
            streamed = stream.get_final_message()
    assert streamed.content[0].input == whole.content[0].input == {}
