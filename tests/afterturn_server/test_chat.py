"""What a chat client gets, and what is recorded of it."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from afterturn_engine.scripted import Reply, Script, ToolCall

USER = [{"role": "user", "content": "say hello to the world"}]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("get_weather", "get_time")
]


def events(text):
    return [line[6:] for line in text.split("\n") if line.startswith("data: ")]


def stream(stack, messages, **body):
    with stack.client() as client:
        response = client.post(
            "/v1/chat/completions", json={"model": "default", "messages": messages, "stream": True, **body}
        )
    assert response.status_code == 200, response.text
    data = events(response.text)
    assert data[-1] == "[DONE]"
    return response, [json.loads(event) for event in data[:-1]]


def test_a_whole_reply_is_the_engines_without_what_was_not_asked_for(stack):
    with stack.client() as client:
        response = client.post("/v1/chat/completions", json={"model": "default", "messages": USER})
    body = response.json()
    assert body["model"] == "default"
    assert body["choices"][0]["message"]["content"] == "say hello to the world"
    assert body["choices"][0]["logprobs"] is None
    assert "token_ids" not in body["choices"][0]
    assert "prompt_token_ids" not in body
    assert body["session_id"] == response.headers["x-session-id"]
    assert response.headers["x-adapter"] == "base"
    assert response.headers["x-turn-id"].startswith("turn_")


def test_the_turn_is_recorded_with_the_engines_own_ids_and_logprobs(stack):
    reply = stack.chat(USER, logprobs=True, return_token_ids=True, temperature=0.7, seed=3)
    turn = stack.turn(reply["turn_id"])
    choice = reply["choices"][0]
    assert turn["token_ids"] == choice["token_ids"]
    assert turn["prompt_token_ids"] == reply["prompt_token_ids"]
    assert turn["logprobs"] == pytest.approx([e["logprob"] for e in choice["logprobs"]["content"]], abs=1e-6)
    assert turn["state"] == "open"
    assert (turn["kind"], turn["kind_reason"]) == ("main", "default")
    assert turn["request"]["messages"] == USER
    assert turn["request"]["sampling"] == {"temperature": 0.7, "seed": 3}
    assert turn["reply"] == {"role": "assistant", "content": "say hello to the world"}
    assert turn["response_id"] == reply["id"]
    assert turn["finish_reason"] == "stop"
    assert turn["created_at"].endswith("Z")
    assert turn["protocol"] == "chat"


def test_a_stream_says_the_same_and_records_the_same(stack):
    whole = stack.turn(stack.chat(USER)["turn_id"])
    response, chunks = stream(stack, USER)
    streamed = stack.turn(response.headers["x-turn-id"])
    for name in ("token_ids", "logprobs", "prompt_token_ids", "reply", "finish_reason"):
        assert streamed[name] == whole[name]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "say hello to the world"
    for chunk in chunks:
        assert chunk["model"] == "default"
        assert "usage" not in chunk
        assert "prompt_token_ids" not in chunk
        assert "token_ids" not in chunk["choices"][0]
        assert chunk["choices"][0]["logprobs"] is None


def test_ids_and_logprobs_are_streamed_to_those_who_ask(stack):
    response, chunks = stream(stack, USER, logprobs=True, return_token_ids=True)
    turn = stack.turn(response.headers["x-turn-id"])
    assert chunks[0]["prompt_token_ids"] == turn["prompt_token_ids"]
    assert [i for c in chunks for i in c["choices"][0].get("token_ids", ())] == turn["token_ids"]
    assert sum(len((c["choices"][0]["logprobs"] or {"content": ()})["content"]) for c in chunks) == len(
        turn["token_ids"]
    )


def test_b35_usage_comes_in_one_last_chunk_when_asked_for(stack):
    response, chunks = stream(stack, USER, stream_options={"include_usage": True})
    turn = stack.turn(response.headers["x-turn-id"])
    assert [c["usage"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len(turn["token_ids"])
    assert chunks[-1]["usage"]["prompt_tokens"] == len(turn["prompt_token_ids"])
    for options in ({"include_usage": False}, None):
        assert all("usage" not in c for c in stream(stack, USER, stream_options=options)[1])


@pytest.mark.parametrize("streamed", [True, False])
def test_b35_two_choices_are_two_turns_and_the_one_that_is_echoed_goes_on(stack, streamed):
    if streamed:
        response, chunks = stream(stack, USER, n=2)
        assert {c["choices"][0]["index"] for c in chunks} == {0, 1}
        first = response.headers["x-turn-id"]
    else:
        reply = stack.chat(USER, n=2)
        assert [c["index"] for c in reply["choices"]] == [0, 1]
        first = reply["turn_id"]
    one = stack.turn(first)
    turns = stack.admin("GET", "turns", params={"response_id": one["response_id"]}).json()["data"]
    (other,) = [turn for turn in turns if turn["id"] != first]
    assert other["attempt_of"] == first
    assert other["prompt_token_ids"] == one["prompt_token_ids"]


@pytest.mark.parametrize(
    "choice", ["auto", "required", {"type": "function", "function": {"name": "get_time"}}]
)
def test_b13_tool_calls_accumulate_to_the_whole_reply(start, choice):
    calls = (ToolCall(name="get_weather", arguments='{"city":  "Köln"}'), ToolCall(name="get_time"))
    with start(Script(replies=(Reply(content="one moment", tool_calls=calls),))) as stack:
        client = stack.openai()
        request = {"model": "default", "messages": USER, "tools": TOOLS, "tool_choice": choice}
        whole = client.chat.completions.create(**request).choices[0]
        with client.chat.completions.stream(**request) as chunks:
            for _ in chunks:
                pass
            streamed = chunks.get_final_completion().choices[0]
        assert streamed.finish_reason == whole.finish_reason

        def plain(c):
            return [(t.id, t.function.name, t.function.arguments) for t in c.message.tool_calls]

        assert plain(streamed) == plain(whole)
        turns = stack.admin("GET", "turns").json()["data"]
        assert turns[0]["reply"]["tool_calls"] == turns[1]["reply"]["tool_calls"]
        assert turns[0]["token_ids"] == turns[1]["token_ids"]


def test_b11_a_stop_sequence_across_pieces_ends_text_not_ids(start):
    pieces = ("alpha be", "ta gam", "ma delta")
    with start(Script(replies=(Reply(pieces=pieces),))) as stack:
        whole = stack.chat(USER, stop=["beta gamma"])
        response, chunks = stream(stack, USER, stop="beta gamma")
        streamed = stack.turn(response.headers["x-turn-id"])
        recorded = stack.turn(whole["turn_id"])
        assert whole["choices"][0]["message"]["content"] == recorded["reply"]["content"]
        assert "beta gamma" not in recorded["reply"]["content"]
        assert streamed["token_ids"] == recorded["token_ids"]
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_unknown_fields_and_sampling_reach_the_engine_and_ours_do_not(stack):
    stack.chat(USER, top_k=5, cache_salt="x", session_id="s", turn_type="main", session_done=False)
    sent = stack.engine.received[-1].body
    assert (sent["top_k"], sent["cache_salt"]) == (5, "x")
    assert sent["logprobs"] is True
    assert sent["return_token_ids"] is True
    assert not {"session_id", "turn_type", "session_done"} & sent.keys()
    assert sent["model"] == "base"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_limit_above_the_context_is_clamped(start, field):
    with start(Script(context_length=64)) as stack:
        for limit in (65536, 60):
            reply = stack.chat(USER, **{field: limit})
            assert reply["choices"][0]["finish_reason"] == "stop"


def test_a_prompt_above_the_context_is_refused_as_openai_does(start):
    with start(Script(context_length=16)) as stack, stack.client() as client:
        for streamed in (False, True):
            response = client.post(
                "/v1/chat/completions",
                json={"model": "default", "messages": USER, "max_tokens": 5, "stream": streamed},
            )
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "context_length_exceeded"


def test_b25_calls_without_content_are_accepted_in_every_spelling(stack):
    call = {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    prompts = []
    for content in ({"content": None}, {}, {"content": ""}, {"content": []}):
        messages = [
            *USER,
            {"role": "assistant", "tool_calls": [call], **content},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": "and now?"},
        ]
        turn = stack.turn(stack.chat(messages)["turn_id"])
        prompts.append(turn["prompt_token_ids"])
        assert turn["request"]["messages"] == messages
    assert all(prompt == prompts[0] for prompt in prompts)


def test_b43_text_parts_are_text(stack):
    ids = []
    for content in (
        "A\nB",
        [
            {"type": "text", "text": "A"},
            {"type": "text", "text": "B", "cache_control": {}},
        ],
        [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}],
    ):
        turn = stack.turn(stack.chat([{"role": "user", "content": content}])["turn_id"])
        ids.append(turn["prompt_token_ids"])
        assert turn["request"]["messages"][0]["content"] == content
    assert ids[0] == ids[1] == ids[2]


def test_store_off_leaves_no_trace_and_train_off_is_never_trained(stack):
    with stack.client() as client:
        off = client.post(
            "/v1/chat/completions",
            json={"model": "default", "messages": USER},
            headers={"X-Afterturn-Store": "off"},
        )
    assert off.status_code == 200
    assert "x-turn-id" not in off.headers
    assert "session_id" not in off.json()
    assert stack.admin("GET", "turns").json()["data"] == []
    kept = stack.turn(stack.chat(USER, headers={"X-Afterturn-Train": "off"})["turn_id"])
    assert (kept["state"], kept["excluded_reason"]) == ("excluded", "train_off")


def test_keep_alive_comments_come_between_events(start):
    script = Script(replies=(Reply(content="one two", prefill_ms=300, piece_ms=120),))
    with start(script, keep_alive_s=0.05) as stack, stack.client() as client:
        response = client.post(
            "/v1/chat/completions", json={"model": "default", "messages": USER, "stream": True}
        )
        blocks = response.text.split("\n\n")
        assert blocks.count(": keep-alive") >= 3
        assert all(block.startswith(("data: ", ": keep-alive")) for block in blocks if block)


def test_a_stream_reaches_the_client_as_it_comes(start):
    script = Script(replies=(Reply(pieces=("one", "two"), piece_ms=400),))
    with start(script) as stack, stack.client() as client:
        body = {"model": "default", "messages": USER, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()
            seen = ""
            while "one" not in seen:
                seen = next(lines)
            assert stack.engine.running == 1
            assert "[DONE]" in list(lines)[-2]


def test_b28_many_at_once_are_all_recorded_with_what_they_said(stack):
    def ask(number):
        messages = [{"role": "user", "content": f"number {number}"}]
        if number % 2:
            return stack.chat(messages)["turn_id"]
        return stream(stack, messages)[0].headers["x-turn-id"]

    with ThreadPoolExecutor(12) as pool:
        turn_ids = list(pool.map(ask, range(60)))
    turns = stack.admin("GET", "turns", params={"limit": 200}).json()["data"]
    assert {turn["id"]: turn["reply"]["content"] for turn in turns} == {
        turn_id: f"number {number}" for number, turn_id in enumerate(turn_ids)
    }
    assert len({turn["session_id"] for turn in turns}) == 60


def test_two_first_requests_under_one_name_are_told_one_session(stack):
    def ask(number):
        messages = [{"role": "user", "content": f"number {number}"}]
        return stack.chat(messages, headers={"X-Session-Id": "shared"})["session_id"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


def test_the_record_is_there_before_the_last_event(stack):
    with stack.client() as client:
        body = {"model": "default", "messages": USER, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    assert stack.turn(response.headers["x-turn-id"])["finish_reason"] == "stop"
                    return
    raise AssertionError("no end")


@pytest.mark.parametrize(
    "grammar",
    [
        {"response_format": {"type": "json_object"}},
        {"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "look"}}]},
    ],
)
def test_turns_in_which_a_grammar_chose_tokens_are_stored_and_never_trained(stack, grammar):
    """B23: a token that the policy did not choose carries no loss, and the engine does not say which."""
    with stack.client() as client:
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], **grammar}
        turn_id = client.post("/v1/chat/completions", json=body).headers["x-turn-id"]
    turn = stack.turn(turn_id)
    assert (turn["state"], turn["excluded_reason"]) == ("excluded", "grammar_forced")


def test_a_body_that_is_nested_too_deeply_is_refused(stack):
    deep: object = "x"
    for _ in range(300):
        deep = [deep]
    with stack.client() as client:
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"deep": deep}}}]
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
        response = client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


def test_a_nul_in_a_tools_output_is_stored(stack):
    call = {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a\0b"},
        {"role": "user", "content": "n\0w"},
    ]
    assert stack.chat(history)["turn_id"]
