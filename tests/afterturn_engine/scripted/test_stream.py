"""Whatever pieces a script cuts a reply into, OpenAI's own accumulator rebuilds the whole answer (B13)."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from afterturn_engine.scripted import Reply, ToolCall, dialect
from afterturn_engine.scripted.generation import Bounds, Generation, generate

WORDS, THOUGHTS, ARGUMENTS = "Aye, the séa 🙂 it is.", "What would they like?", '{"to":  "sea", "n": [1, 2]}'
POINTS = st.lists(st.integers(1, 40), max_size=8)


def cut(text: str, points: list[int]) -> tuple[str, ...]:
    edges = [0, *sorted({point for point in points if point < len(text)}), len(text)]
    return tuple(text[start:end] for start, end in itertools.pairwise(edges))


def answer(reasoning: bool = True) -> dialect.Answer:
    return dialect.Answer("chatcmpl-1", "base", (1, 2), True, True, 0, None, reasoning)


def rebuilt(generation: Generation, reasoning: bool = True) -> dict[str, object]:
    told = answer(reasoning)
    last = len(generation.pieces) - 1
    chunks = [dialect.chat_opening(told, 0)]
    for place, piece in enumerate(generation.pieces):
        chunks.append(dialect.chat_chunk(told, 0, piece, generation if place == last else None))
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    return dict(state.current_completion_snapshot.choices[0].message.model_dump())


@settings(deadline=None, max_examples=50)
@given(POINTS, POINTS, POINTS)
def test_any_cut_of_words_thoughts_and_arguments(
    words: list[int], thoughts: list[int], arguments: list[int]
) -> None:
    reply = Reply(
        pieces=cut(WORDS, words),
        reasoning_pieces=cut(THOUGHTS, thoughts),
        tool_calls=(ToolCall(name="sail", pieces=cut(ARGUMENTS, arguments)), ToolCall(name="moor")),
    )
    generation = generate(reply, "", "base", Bounds(1000, tools=True))
    whole = dialect.chat_message(answer(), generation)
    streamed = rebuilt(generation)
    assert whole["content"] == streamed["content"] == WORDS
    assert whole["reasoning"] == streamed["reasoning"] == THOUGHTS
    calls = streamed["tool_calls"]
    assert isinstance(calls, list)
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        ("call_0", "sail", ARGUMENTS),
        ("call_1", "moor", "{}"),
    ]


def test_thoughts_can_be_left_out() -> None:
    generation = generate(Reply(content=WORDS, reasoning=THOUGHTS), "", "base", Bounds(1000))
    assert dialect.chat_message(answer(reasoning=False), generation)["reasoning"] is None
    streamed = rebuilt(generation, reasoning=False)
    assert streamed.get("reasoning") is None
    assert streamed["content"] == WORDS


def test_choices_may_differ() -> None:
    reply = Reply(content="one", pieces=("o", "ne"), others=("two",))
    said = [generate(reply.choice(i), "", "base", Bounds(1000)).text("content") for i in range(3)]
    assert said == ["one", "two", "one"]
