"""However a text is cut into chunks, the clients' own accumulators rebuild the reply that comes whole."""

import json
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afterturn_engine.scripted import Reply, Script, ToolCall

HI = [{"role": "user", "content": "hi"}]
CHAT_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
RESPONSES_TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
MESSAGES_TOOL = {"name": "look", "input_schema": {"type": "object"}}

# Marks that protocols and line readers are tempted to take for their own.
TEXTS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30
) | (
    st.lists(
        st.sampled_from(
            ["data: ", "\n\n", "\r\n", "[DONE]", "event: x", "é", "\u2028", "\x85", "🦊", "</", " "]
        ),
        min_size=1,
        max_size=8,
    ).map("".join)
)
ARGUMENTS = st.dictionaries(st.text('ab"\\é', max_size=3), st.integers() | st.text(max_size=5), max_size=3)


@st.composite
def cut_texts(draw):
    """A text and a way to cut it into pieces."""
    text = draw(TEXTS)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=6)))
    edges = [0, *(cut for cut in cuts if cut < len(text)), len(text)]
    return text, tuple(text[start:end] for start, end in pairwise(edges))


@st.composite
def replies(draw):
    """A reply of a text, perhaps with thoughts before it and calls after it."""
    text, pieces = draw(cut_texts())
    calls = draw(st.lists(ARGUMENTS, max_size=2))
    spaced = draw(st.sampled_from([(", ", ": "), (",", ":"), (" , ", " :  ")]))
    return text, Reply(
        pieces=pieces,
        reasoning=draw(st.none() | st.text("abc\n", min_size=1, max_size=5)),
        tool_calls=tuple(
            ToolCall(name="look", arguments=json.dumps(call, separators=spaced), id=f"call_{number}")
            for number, call in enumerate(calls)
        ),
    )


def without_ids(body):
    """A body without what differs from one answer to the next."""
    text = json.dumps(body).replace(body["id"].partition("_")[2] or body["id"], "ID")
    return {**json.loads(text), "created": 0, "created_at": 0}


def chat(client):
    asked = {"model": "default", "messages": HI, "tools": [CHAT_TOOL]}
    whole = client.chat.completions.create(**asked)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        built = stream.get_final_completion()
    said, rebuilt = whole.choices[0].message, built.choices[0].message
    assert (rebuilt.content or "") == (said.content or "")
    assert (rebuilt.to_dict().get("reasoning") or "") == (said.to_dict().get("reasoning") or "")
    assert built.choices[0].finish_reason == whole.choices[0].finish_reason
    assert [(call.id, call.function.name, call.function.arguments) for call in rebuilt.tool_calls or ()] == [
        (call.id, call.function.name, call.function.arguments) for call in said.tool_calls or ()
    ]
    return said.content or ""


def responses(client):
    asked = {"model": "default", "input": "hi", "tools": [RESPONSES_TOOL]}
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        for _ in stream:
            pass
        built = stream.get_final_response()
    rebuilt = built.to_dict()
    for item in rebuilt["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    assert without_ids(rebuilt) == without_ids(whole.to_dict())
    return whole.output_text


def messages(client):
    asked = {"model": "default", "max_tokens": 500, "messages": HI, "tools": [MESSAGES_TOOL]}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        built = stream.get_final_message()
    assert without_ids(built.to_dict()) == without_ids(whole.to_dict())
    return "".join(block.text for block in whole.content if block.type == "text")


def completions(client):
    asked = {"model": "default", "prompt": "hi", "max_tokens": 500}
    whole = client.completions.create(**asked).choices[0]
    built = list(client.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in built) == whole.text
    assert built[-1].choices[0].finish_reason == whole.finish_reason
    return whole.text


def test_every_split_rebuilds_the_whole_reply(stack):
    """B11, B13"""
    openai, anthropic = stack.openai(), stack.anthropic()

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(replies())
    def holds(drawn):
        text, reply = drawn
        stack.engine.replace_script(Script(replies=(reply,)))
        assert chat(openai) == responses(openai) == messages(anthropic) == text
        assert completions(openai).startswith(text)

    holds()
    stored = [turn["reply"] for turn in stack.admin("GET", "turns", params={"limit": 8}).json()["data"]]
    assert len({json.dumps(reply["content"]) for reply in stored[2:]}) == 1
