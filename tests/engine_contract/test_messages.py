"""Messages as clients send them: field cases B25 (no content beside calls) and B43 (content in parts)."""

import pytest
from tests.engine_contract.engine import Engine, Json, chat_body
from tests.engine_contract.test_refusals import refused

USER = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "sail", "arguments": "{}"}}
PATH = "/v1/chat/completions"


def prompt(engine: Engine, *messages: Json) -> list[int]:
    body = engine.chat(messages=messages, max_tokens=1, return_token_ids=True, return_prompt_text=True)
    assert "None" not in body["prompt_text"]
    assert "null" not in body["prompt_text"]
    assert "'type'" not in body["prompt_text"]
    ids = body["prompt_token_ids"]
    assert isinstance(ids, list)
    return ids


def test_no_content_beside_calls_is_one_and_the_same(engine: Engine) -> None:
    def history(**content: object) -> list[int]:
        assistant = {"role": "assistant", "tool_calls": [CALL], **content}
        result = {"role": "tool", "tool_call_id": "c1", "content": "42"}
        return prompt(engine, USER, assistant, result, {"role": "user", "content": "and now?"})

    assert history(content=None) == history() == history(content="") == history(content=[])


def test_an_assistant_that_said_nothing_reads_as_empty(engine: Engine) -> None:
    def history(**said: object) -> list[int]:
        return prompt(engine, USER, {"role": "assistant", **said}, USER)

    assert history(content=None) == history(content="") == history(content=None, tool_calls=[])
    assert (
        history(content="x", tool_calls=[]) == history(content="x", tool_calls=None) == history(content="x")
    )


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_parts_read_as_lines_in_every_role(engine: Engine, role: str) -> None:
    parts = [
        {"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "B"},
    ]
    called = {"role": "assistant", "content": "", "tool_calls": [CALL]} if role == "tool" else USER
    about = {"role": role, "tool_call_id": "c1"} if role == "tool" else {"role": role}
    in_parts = prompt(engine, called, {**about, "content": parts}, USER)
    assert in_parts == prompt(engine, called, {**about, "content": "A\nB"}, USER)


def test_parts_of_other_names_and_bare_texts_are_read(engine: Engine) -> None:
    plain = prompt(engine, {"role": "user", "content": "A"})
    if engine.kind != "vllm":
        assert prompt(engine, {"role": "user", "content": ["A"]}) == plain
        assert prompt(engine, {"role": "user", "content": [{"type": "input_text", "text": "A"}]}) == plain
    assert prompt(engine, {"role": "user", "content": []}) == prompt(engine, {"role": "user", "content": ""})


@pytest.mark.parametrize(
    "part",
    [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, {"type": "foo"}],
    ids=["image", "unknown"],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_not_text_is_refused(engine: Engine, part: Json, stream: bool) -> None:
    messages = [USER, {"role": "user", "content": [{"type": "text", "text": "A"}, part]}]
    error = refused(engine.post(PATH, chat_body(messages=messages, stream=stream)), 400)
    if engine.kind != "vllm":
        assert error["param"] == "messages.1.content.1"
