"""What of a message's parts, calls and thoughts the engine is shown, in every protocol."""

import json

import pytest

from afterturn_engine.scripted import Reply, Script, ToolCall

from .protocols import PATHS, TALKING, ask, assistant, body, said, shape, user

TEXTS = {
    "chat": [
        [{"type": "text", "text": "A"}, {"type": "text", "text": "B", "cache_control": {}}],
        [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}],
    ],
    "responses": [
        [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}],
        [{"type": "text", "text": "A"}, {"type": "output_text", "text": "B"}],
    ],
    "messages": [[{"type": "text", "text": "A"}, {"type": "text", "text": "B", "cache_control": {}}]],
}


@pytest.mark.parametrize("protocol", TALKING)
def test_b43_parts_are_joined_by_a_newline_everywhere(stack, protocol):
    """B43"""
    role = "user" if protocol == "messages" else "system"
    shown, stored = [], []
    with stack.client() as client:
        for content in ("A\nB", *TEXTS[protocol]):
            messages = [
                {"role": role, "content": content},
                assistant("x"),
                {"role": "user", "content": content},
            ]
            turn = stack.turn(ask(client, protocol, messages).headers["x-turn-id"])
            shown.append(turn["prompt_token_ids"])
            stored.append(turn)
        assert all(ids == shown[0] for ids in shown)
        assert "{'type'" not in json.dumps(stack.engine.received[-1].body)
        for content in ([{"type": "foo"}], ["A"], 5):
            answer = client.post(PATHS[protocol], json=body(protocol, [{"role": "user", "content": content}]))
            assert answer.status_code == 400
            assert "content" in json.dumps(shape(answer, protocol))
        empty = ask(client, protocol, [{"role": "user", "content": []}])
        assert stack.engine.received[-1].body["messages"][0]["content"] == ""
    assert stack.turn(empty.headers["x-turn-id"])["state"] == "open"
    # Attempts of one another, since the prompts are equal once they are normalised.
    assert all(turn["attempt_of"] is not None for turn in stored[1:])


def test_b25_calls_without_content_in_every_spelling(stack):
    """B25"""
    call = {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    prompts = []
    with stack.client() as client:
        for content in ({"content": None}, {}, {"content": ""}, {"content": []}):
            messages = [
                user("time?"),
                {"role": "assistant", "tool_calls": [call], **content},
                {"role": "tool", "tool_call_id": "c1", "content": "42"},
                user("and now?"),
            ]
            turn = stack.turn(ask(client, "chat", messages).headers["x-turn-id"])
            prompts.append(turn["prompt_token_ids"])
        for odd in (
            {"content": None},
            {"content": "x", "tool_calls": []},
            {"content": "x", "tool_calls": None},
        ):
            ask(client, "chat", [user("hi"), {"role": "assistant", **odd}, user("and now?")])
            sent = stack.engine.received[-1].body["messages"][1]
            assert sent["content"] is not None
            assert "tool_calls" not in sent or sent["tool_calls"]
        items = [
            user("time?"),
            {"type": "function_call", "call_id": "c1", "name": "get_time", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            user("and now?"),
        ]
        blocks = [
            user("time?"),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "get_time", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
            user("and now?"),
        ]
        for protocol, messages in (("responses", items), ("messages", blocks)):
            turn = stack.turn(ask(client, protocol, messages).headers["x-turn-id"])
            prompts.append(turn["prompt_token_ids"])
    assert all(prompt == prompts[0] for prompt in prompts)


def test_our_own_reply_of_calls_alone_has_null_content(start):
    """B25"""
    tool = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}
    script = Script(replies=(Reply(tool_calls=(ToolCall(name="get_time"),)),))
    with start(script) as stack, stack.client() as client:
        message = ask(client, "chat", [user("hi")], tools=[tool]).json()["choices"][0]["message"]
    assert message["content"] is None


@pytest.mark.parametrize("protocol", TALKING)
def test_b03_a_thought_is_told_apart_and_may_come_back_or_not(start, protocol):
    """B03"""
    script = Script(replies=(Reply(when="u1", reasoning="x", content="ok"),))
    with start(script) as stack, stack.client() as client:
        first = ask(client, protocol, [user("u1")])
        before = stack.turn(first.headers["x-turn-id"])
        assert said(protocol, first.json()) == "ok"
        histories = {
            "chat": [
                [{**assistant("ok"), "reasoning_content": "x"}],
                [{**assistant("ok"), "reasoning": "x"}],
                [assistant("<think>x</think>ok")],
                [assistant("ok")],
            ],
            "responses": [first.json().get("output", []), [assistant("ok")]],
            "messages": [
                [{"role": "assistant", "content": first.json().get("content", "ok")}],
                [assistant("ok")],
            ],
        }[protocol]
        seen = []
        for history in histories:
            # A word more each time, so that none is a retry of another.
            answer = ask(client, protocol, [user("u1"), *history, user(f"u2 {len(seen)}")])
            turn = stack.turn(answer.headers["x-turn-id"])
            assert turn["parent_id"] == before["id"]
            assert len(turn["token_ids"]) == len(turn["logprobs"]) > 0
            seen.append(stack.engine.received[-1].body["messages"][1])
    assert seen[0]["reasoning"] == seen[0]["reasoning_content"] == "x"
    if protocol == "chat":
        assert seen[1]["reasoning"] == seen[1]["reasoning_content"] == "x"
    assert "reasoning" not in seen[-1]
    assert before["reply"]["reasoning"] == "x"
