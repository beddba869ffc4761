"""Histories that clients rewrite in their ways are still the same conversation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_server.linking import read_history, reply_entry

WORDS = st.text(st.sampled_from("abc xyzäß.?"), min_size=1, max_size=12).filter(str.strip)
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "path", "n"]), st.integers() | WORDS, max_size=3)


@st.composite
def replies(draw):
    """An assistant message as we sent it, and the results of its calls."""
    calls = [
        {
            "id": f"call_{draw(st.integers(0, 10**6))}_{number}",
            "type": "function",
            "function": {"name": draw(st.sampled_from(["exec", "read"])), "arguments": json.dumps(arguments)},
        }
        for number, arguments in enumerate(draw(st.lists(ARGUMENTS, max_size=2)))
    ]
    text = draw(st.sampled_from(["\n", "", "  "])) + draw(WORDS) + draw(st.sampled_from(["", "  \n"]))
    message = {"role": "assistant", "content": text, "reasoning": "hm"}
    if calls:
        message["tool_calls"] = calls
        message["content"] = draw(st.sampled_from([text, None]))
    results = [{"role": "tool", "tool_call_id": call["id"], "content": draw(WORDS)} for call in calls]
    return [message, *results]


@st.composite
def conversations(draw):
    messages = [{"role": "system", "content": "you are a bird"}]
    for _ in range(draw(st.integers(1, 4))):
        messages += [{"role": "user", "content": draw(WORDS)}, *draw(replies())]
    return messages


def stripped(message):
    """hermes, nanobot, aider."""
    content = message.get("content") or ""
    return {**message, "content": content.strip() if isinstance(content, str) else content}


def compacted(message):
    """OpenClaw: letters of ids, arguments without spaces, thoughts dropped."""
    message = {k: v for k, v in message.items() if k != "reasoning"}
    if "tool_call_id" in message:
        message["tool_call_id"] = message["tool_call_id"].replace("_", "")
    if "tool_calls" in message:
        message["tool_calls"] = [
            {
                **call,
                "id": call["id"].replace("_", ""),
                "function": {
                    **call["function"],
                    "arguments": json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":")),
                },
            }
            for call in message["tool_calls"]
        ]
    return message


def in_parts(message):
    """pi, Claude Code: text as parts, marked for a cache that moves."""
    if not isinstance(message.get("content"), str) or not message["content"]:
        return message
    return {
        **message,
        "content": [{"type": "text", "text": message["content"], "cache_control": {}}],
    }


def without_null(message):
    """opencode: no null."""
    return {**message, "content": message.get("content") or ""}


def named(message):
    """nanobot: names on tool results."""
    return {**message, "name": "exec"} if message["role"] == "tool" else message


def enveloped(message):
    """OpenClaw: a stamp on what people say."""
    if message["role"] != "user":
        return message
    stamp = "[Mon 2026-11-30 15:33 UTC] "
    if isinstance(message["content"], list):
        (part,) = message["content"]
        return {**message, "content": [{**part, "text": stamp + part["text"]}]}
    return {**message, "content": stamp + message["content"]}


REWRITES = [stripped, compacted, in_parts, without_null, named, enveloped]


@settings(max_examples=60, deadline=None)
@given(conversations(), st.lists(st.sampled_from(REWRITES), max_size=4))
def test_rewritten_histories_keep_their_keys(messages, rewrites):
    rewritten = messages
    for rewrite in rewrites:
        rewritten = [rewrite(message) for message in rewritten]
    rewritten = [{"role": "system", "content": "another"}, *rewritten[1:], INTERNAL]
    before, after = read_history(messages), read_history(rewritten)
    assert [before.keys[p] for p in before.replies] == [after.keys[p] for p in after.replies]


INTERNAL = {
    "role": "user",
    "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nit is Monday\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
}


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_a_reply_is_found_by_the_key_it_was_stored_under(messages):
    for position, message in enumerate(messages):
        if message["role"] == "assistant":
            stored = read_history(messages[:position]).key_with(reply_entry(message))
            assert stored in read_history(messages).keys


@settings(max_examples=60, deadline=None)
@given(conversations(), st.randoms())
def test_parallel_results_may_come_in_any_order(messages, random):
    shuffled, run = [], []
    for message in [*messages, {"role": "user", "content": "end"}]:
        if message["role"] == "tool":
            run.append(message)
            continue
        random.shuffle(run)
        shuffled += [*run, message]
        run = []
    assert read_history(messages).keys == read_history(shuffled).keys[:-1]


@pytest.mark.parametrize(
    "other",
    [
        [{"role": "user", "content": "hi!"}],
        [{"role": "assistant", "content": "hi"}],
        [{"role": "tool", "content": "hi", "tool_call_id": "1"}],
        [{"role": "user", "content": "hi"}, {"role": "user", "content": "hi"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}],
    ],
)
def test_what_was_said_by_whom_makes_a_difference(other):
    assert read_history(other).key != read_history([{"role": "user", "content": "hi"}]).key


@pytest.mark.parametrize("field", ["id", "name", "arguments"])
def test_each_part_of_a_call_makes_a_difference(field):
    def history(**changes):
        call = {"id": "a1", "name": "exec", "arguments": '{"x": 1}', **changes}
        function = {"name": call["name"], "arguments": call["arguments"]}
        return read_history([{"role": "assistant", "tool_calls": [{"id": call["id"], "function": function}]}])

    assert history().key == history(arguments='{ "x":1 }').key
    assert history().key != history(**{field: '{"x": 2}'}).key


def test_thoughts_in_the_text_are_dropped_like_those_beside_it():
    one = read_history([{"role": "assistant", "content": "<think>x</think>\n\nok"}])
    assert one.key == read_history([{"role": "assistant", "content": "ok", "reasoning_content": "x"}]).key


def test_pieces_are_tool_results_first_then_what_people_said():
    history = read_history(
        [
            {"role": "user", "content": "start"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "[Mon 2026-11-30 15:33 UTC] better"},
            {"role": "tool", "tool_call_id": "1", "content": " 42 "},
            {"role": "system", "content": "reminder"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "later"},
        ]
    )
    first, second = history.replies
    assert [(piece.role, piece.text) for piece in history.pieces_after(first)] == [
        ("tool", "42"),
        ("user", "better"),
    ]
    assert [piece.text for piece in history.pieces_after(second)] == ["later"]


def calling(*ids, text=""):
    calls = [{"id": one, "function": {"name": "exec", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(call_id, text):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


ID = "call_0123456789abcdef"


def test_a_reply_in_several_messages_is_one():
    whole = read_history([{"role": "user", "content": "hi"}, calling(ID, text="Let me look.")])
    apart = read_history(
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Let me look."}, calling(ID)]
    )
    assert whole.key == apart.key


def test_a_reply_to_a_beginning_is_one_with_it():
    begun = read_history([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well"}])
    whole = read_history([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well\ndone"}])
    assert begun.key_with(reply_entry({"role": "assistant", "content": "done"})) == whole.key


def test_call_ids_tell_a_reply_whatever_else_was_rewritten():
    told = reply_entry(calling(ID, "call_fedcba9876543210", text="a")).reply_key
    assert told == reply_entry(calling("callfedcba9876543210", ID, text="b")).reply_key
    assert reply_entry(calling("1", text="a")).reply_key != reply_entry(calling("1", text="b")).reply_key


def test_results_whose_call_is_gone_still_tell_it():
    left = read_history(
        [{"role": "user", "content": "Summary"}, result(ID, "42"), {"role": "user", "content": "x"}]
    )
    (trace,) = left.traces
    assert trace.reply_key == reply_entry(calling(ID)).reply_key
    assert [(piece.role, piece.text) for piece in left.pieces_after(trace.position)] == [
        ("tool", "42"),
        ("user", "x"),
    ]


def test_what_clients_say_in_the_assistants_place_is_left_out():
    bare = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    note = [
        {"role": "user", "content": "I have *added these files to the chat* so you can edit them.\n\nx = 1"},
        {"role": "assistant", "content": "Ok, any changes I propose will be to those files."},
    ]
    assert read_history([*note, *bare]).key == read_history(bare).key
    assert read_history([*bare, {"role": "assistant", "content": "No response requested."}]).key == (
        read_history(bare).key
    )
    plain = [{"role": "user", "content": "go?"}, {"role": "assistant", "content": "Ok."}]
    assert len(read_history(plain).entries) == 2


def test_calls_told_as_text_are_calls_and_their_results_are_results():
    calls = [{"id": ID, "type": "function", "function": {"name": "exec", "arguments": {"n": 1}}}]
    retold = [
        {"role": "user", "content": [{"type": "text", "text": "New task:\nhi"}]},
        {"role": "assistant", "content": f"Calling tools:\n{calls}"},
        {"role": "user", "content": "Observation:\n42\nNew task:\nshorter"},
    ]
    sent = {"id": ID, "function": {"name": "exec", "arguments": '{"n":  1}'}}
    plain = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [sent]},
    ]
    history = read_history(retold)
    assert history.keys[1] == read_history(plain).key
    assert [(piece.role, piece.text) for piece in history.pieces_after(1)] == [
        ("tool", "42"),
        ("user", "shorter"),
    ]


def test_code_that_a_client_runs_is_the_text_the_engine_stopped_in():
    code = "Thought: so.\n<code>\nprint(1)\n"
    made = [
        {"id": "call_1", "type": "function", "function": {"name": "python_interpreter", "arguments": "x"}}
    ]
    retold = read_history([{"role": "assistant", "content": f"{code}</code>\nCalling tools:\n{made}"}])
    assert retold.keys == (read_history([]).key_with(reply_entry({"role": "assistant", "content": code})),)


def test_a_note_about_a_dropped_reply_points_to_its_prompt():
    task = [{"role": "user", "content": "task"}]
    note = {"role": "user", "content": "Tool call error:\n\nNo tool calls found."}
    assert read_history(task).dropped_reply is None
    history = read_history([*task, note, note])
    assert history.dropped_reply == 1
    assert len(history.pieces_after(0)) == 1


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_taken_apart(text):
    for content in (text, f"Calling tools:\n{text}", f"Observation:\n{text}"):
        for role in ("assistant", "user"):
            read_history(
                [
                    {"role": "assistant", "content": f"Calling tools:\n{[]}"},
                    {"role": role, "content": content},
                ]
            )


@pytest.mark.parametrize("arguments", ["b'x'", "{1: 2}", "{1, 2}", "'\\ud800'"])
def test_calls_told_as_text_that_no_call_can_hold_are_text(arguments):
    """B18: whatever a history says, it is answered."""
    text = f"Calling tools:\n[{{'function': {{'name': 'f', 'arguments': {arguments}}}}}]"
    (entry,) = read_history([{"role": "assistant", "content": text}]).entries
    assert (entry.text, entry.calls) == (text, ())


def test_arguments_that_are_nested_too_deeply_are_compared_as_text():
    """B18."""
    deep = "[" * 400 + "]" * 400
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": f" {deep}"}}
    (entry,) = read_history([{"role": "assistant", "content": None, "tool_calls": [call]}]).entries
    assert entry.calls[0].arguments == deep


def test_thoughts_are_left_out_and_opening_marks_alone_are_text():
    """B03. A megabyte of opening marks takes as long to read as any other: this ends."""
    assert reply_entry({"content": "<think>a<think>b</think> x <think>c</think>y <think>z"}).text == (
        "x y <think>z"
    )
    marks = "<think>" * 150_000
    assert reply_entry({"content": marks}).text == marks


def test_a_reply_in_many_messages_is_one():
    """A hundred thousand of them, too, are read as quickly as they are long: this ends."""
    (entry,) = read_history([{"role": "assistant", "content": "some words of it"}] * 100_000).entries
    assert entry.text.count("\n") == 99_999
