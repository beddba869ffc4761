"""A chat answered at once, and the same chat answered token by token."""

from tests.engine_contract.engine import Engine, Json


def chat_text(events: list[Json], index: int = 0) -> str:
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        for choice in event["choices"]
        if choice["index"] == index
    )


def sampled_ids(events: list[Json], index: int = 0) -> list[int]:
    return [
        token_id
        for event in events
        for choice in event["choices"]
        if choice["index"] == index
        for token_id in choice.get("token_ids") or ()
    ]


def test_a_reply_has_openai_form_and_the_ids_that_were_sampled(engine: Engine) -> None:
    body = engine.chat(return_token_ids=True, logprobs=True)
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "base"
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["message"]["role"] == "assistant"
    assert isinstance(choice["message"]["content"], str)
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] in ("stop", "length")
    assert choice["stop_reason"] is None
    assert all(isinstance(token_id, int) for token_id in body["prompt_token_ids"] + choice["token_ids"])
    usage = body["usage"]
    assert usage["prompt_tokens"] == len(body["prompt_token_ids"])
    assert usage["completion_tokens"] == len(choice["token_ids"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_every_sampled_token_has_a_logprob(engine: Engine) -> None:
    (choice,) = engine.chat(return_token_ids=True, logprobs=True, top_logprobs=1)["choices"]
    entries = choice["logprobs"]["content"]
    assert len(entries) == len(choice["token_ids"])
    for entry in entries:
        assert isinstance(entry["token"], str)
        assert entry["logprob"] <= 0
        assert all(0 <= byte < 256 for byte in entry["bytes"])
        # Greedy: the most likely token is the one that was taken.
        assert [top["logprob"] for top in entry["top_logprobs"]] == [entry["logprob"]]


def test_ids_and_logprobs_are_null_unless_asked_for(engine: Engine) -> None:
    body = engine.chat()
    assert body["prompt_token_ids"] is None
    assert body["choices"][0]["token_ids"] is None
    assert body["choices"][0]["logprobs"] is None


def test_without_top_logprobs_the_alternatives_are_an_empty_list(engine: Engine) -> None:
    (choice,) = engine.chat(logprobs=True)["choices"]
    assert all(entry["top_logprobs"] == [] for entry in choice["logprobs"]["content"])


def test_a_stream_opens_with_the_role_and_the_prompts_ids(engine: Engine) -> None:
    whole = engine.chat(return_token_ids=True)
    first, *rest = engine.chat_events(return_token_ids=True)
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["choices"][0]["finish_reason"] is None
    assert first["prompt_token_ids"] == whole["prompt_token_ids"]
    assert not any(event.get("prompt_token_ids") for event in rest)
    assert {event["id"] for event in rest} == {first["id"]}


def test_a_stream_says_what_the_whole_reply_says(engine: Engine) -> None:
    (whole,) = engine.chat(return_token_ids=True, logprobs=True)["choices"]
    events = engine.chat_events(return_token_ids=True, logprobs=True)
    assert chat_text(events) == whole["message"]["content"]
    assert sampled_ids(events) == whole["token_ids"]
    choices = [choice for event in events for choice in event["choices"]]
    entries = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    assert [entry["token"] for entry in entries] == [entry["token"] for entry in whole["logprobs"]["content"]]
    assert len(entries) == len(whole["token_ids"])
    for streamed, at_once in zip(entries, whole["logprobs"]["content"], strict=True):
        assert abs(streamed["logprob"] - at_once["logprob"]) < 1e-3


def test_a_stream_comes_in_pieces_and_ends_once(engine: Engine) -> None:
    events = engine.chat_events(return_token_ids=True, max_tokens=64)
    choices = [choice for event in events for choice in event["choices"]]
    finishes = [choice["finish_reason"] for choice in choices]
    assert finishes[-1] in ("stop", "length")
    assert finishes[:-1] == [None] * (len(finishes) - 1)
    assert "stop_reason" in events[-1]["choices"][0]
    # Tokens are told as they come. A busy server may put several into one event, never all of them.
    assert sum(1 for choice in choices if choice.get("token_ids")) > 1


def test_a_reply_in_words_calls_no_tool(engine: Engine) -> None:
    tools = [{"type": "function", "function": {"name": "sail", "parameters": {"type": "object"}}}]
    (choice,) = engine.chat(tools=tools)["choices"]
    assert choice["message"]["content"]
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] in ("stop", "length")
    events = engine.chat_events(tools=tools)
    assert chat_text(events) == choice["message"]["content"]
    assert not any(c["delta"].get("tool_calls") for event in events for c in event["choices"])


def test_a_stream_tells_usage_in_an_event_of_its_own_if_asked(engine: Engine) -> None:
    events = engine.chat_events(return_token_ids=True, stream_options={"include_usage": True})
    assert events[-1]["choices"] == []
    usage = events[-1]["usage"]
    assert usage["completion_tokens"] == len(sampled_ids(events))
    assert usage["prompt_tokens"] == len(events[0]["prompt_token_ids"])
    assert not any(event.get("usage") for event in events[:-1])
    assert not any(event.get("usage") for event in engine.chat_events())


def test_n_gives_that_many_choices(engine: Engine) -> None:
    asked = {"n": 2, "temperature": 1.0, "seed": 3, "return_token_ids": True}
    body = engine.chat(**asked)
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["completion_tokens"] == sum(len(choice["token_ids"]) for choice in body["choices"])
    events = engine.chat_events(**asked)
    roles = [event["choices"][0]["index"] for event in events if "role" in event["choices"][0]["delta"]]
    assert sorted(roles) == [0, 1]
    for index in (0, 1):
        assert sampled_ids(events, index) == body["choices"][index]["token_ids"]
        assert chat_text(events, index) == body["choices"][index]["message"]["content"]


def test_parts_of_a_message_read_as_lines(engine: Engine) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    in_parts = engine.chat(messages=[{"role": "user", "content": parts}], return_token_ids=True)
    in_one = engine.chat(messages=[{"role": "user", "content": "one\ntwo"}], return_token_ids=True)
    assert in_parts["prompt_token_ids"] == in_one["prompt_token_ids"]


def test_an_assistant_message_without_content_reads_as_empty(engine: Engine) -> None:
    def prompt(content: str | None) -> list[int]:
        said = {"role": "assistant", "content": content}
        messages = [{"role": "user", "content": "hello"}, said, {"role": "user", "content": "and"}]
        ids = engine.chat(messages=messages, return_token_ids=True)["prompt_token_ids"]
        assert isinstance(ids, list)
        return ids

    assert prompt(None) == prompt("")
