"""Field cases B25 and B43, and tools for templates that know none."""

from typing import Any

import pytest

from afterturn_engine.errors import InvalidRequest
from afterturn_engine.model import Model
from afterturn_engine.requests import ChatPrompt
from afterturn_engine.template import Template

USER = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "add", "description": "Adds", "parameters": {"type": "object"}},
    },
    {"type": "function", "function": {"name": "now"}},
]
KNOWS_TOOLS = (
    "{% for tool in tools %}[{{ tool.function.name }}]{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}({{ c.function.name }} {{ c.function.arguments.a }}){% endfor %};{% endfor %}"
)


@pytest.fixture
def template(model: Model) -> Template:
    return Template(model.tokenizer)


def render(template: Template, *messages: dict[str, Any], **fields: Any) -> str:
    return template.render(ChatPrompt.model_validate({"messages": messages, **fields}))


@pytest.mark.parametrize("content", [None, "", [], "missing"])
def test_no_content_beside_calls_is_one_and_the_same(template: Template, content: Any) -> None:
    assistant: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": [CALL]}
    if content == "missing":
        del assistant["content"]
    messages = [USER, assistant, {"role": "tool", "tool_call_id": "c1", "content": "42"}]
    text = render(template, *messages)
    assert text == render(template, USER, assistant | {"content": ""}, messages[2])
    assert "None" not in text
    assert "null" not in text
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>' in text
    assert "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>" in text


def test_null_content_without_calls_is_empty(template: Template) -> None:
    for calls in (None, []):
        text = render(template, USER, {"role": "assistant", "content": None, "tool_calls": calls})
        assert "<|im_start|>assistant\n<|im_end|>" in text


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_parts_equal_the_joined_text(template: Template, role: str) -> None:
    parts = [{"type": "text", "text": "A", "cache_control": {}}, {"type": "input_text", "text": "B"}, "C"]
    assert render(template, USER, {"role": role, "content": parts}) == render(
        template, USER, {"role": role, "content": "A\nB\nC"}
    )


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "foo"}])
def test_other_parts_are_refused_with_their_place(template: Template, part: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        render(template, USER, {"role": "user", "content": [{"type": "text", "text": "A"}, part]})
    assert refusal.value.param == "messages.1.content.1"


def test_developer_is_system(template: Template) -> None:
    assert render(template, {"role": "developer", "content": "x"}, USER).startswith("<|im_start|>system\nx")


def test_tools_are_described_to_a_template_that_knows_none(template: Template) -> None:
    alone = render(template, USER, tools=TOOLS)
    assert alone.startswith("<|im_start|>system\nYou can call functions.")
    assert '{"type": "function", "function": {"name": "add", "description": "Adds"' in alone
    behind = render(template, {"role": "system", "content": "Be kind."}, USER, tools=TOOLS)
    assert behind.startswith("<|im_start|>system\nBe kind.\n\nYou can call functions.")
    assert behind.count("<|im_start|>system") == 1


def test_consecutive_results_are_one_user_message(template: Template) -> None:
    result = {"role": "tool", "content": "1"}
    text = render(template, USER, {"role": "assistant", "tool_calls": [CALL, CALL]}, result, result)
    assert text.count("<|im_start|>user") == 2


def test_a_template_that_knows_tools_gets_them(model: Model) -> None:
    original = model.tokenizer.chat_template
    model.tokenizer.chat_template = KNOWS_TOOLS
    try:
        template = Template(model.tokenizer)
        assistant = {"role": "assistant", "tool_calls": [CALL]}
        assert render(template, USER, assistant, tools=TOOLS) == "[add][now]user:hello;assistant:(add 1);"
    finally:
        model.tokenizer.chat_template = original


THINKS = (
    "{% for m in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}{{ m.role }}:"
    "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content.split('</think>')[-1] }};{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n' }}assistant:{% endif %}"
)


@pytest.mark.parametrize(
    "assistant",
    [
        {"content": "ok", "reasoning_content": "x"},
        {"content": "ok", "reasoning": "x"},
        {"content": "<think>x</think>ok"},
        {"content": "ok"},
    ],
)
def test_a_template_that_strips_thoughts_reads_every_form_alike(
    model: Model, assistant: dict[str, Any]
) -> None:
    """Field case B03: the template decides, whichever field a client gives thoughts back in."""
    original = model.tokenizer.chat_template
    model.tokenizer.chat_template = THINKS
    try:
        template = Template(model.tokenizer)
        assert template.thinks
        history = [USER, {"role": "assistant", **assistant}, {"role": "user", "content": "and?"}]
        assert render(template, *history) == "user:hello;\nassistant:ok;\nuser:and?;\nassistant:"
        last = render(template, *history[:2], add_generation_prompt=False)
        assert ("<think>x</think>" in last) == ("reasoning" in str(assistant))
    finally:
        model.tokenizer.chat_template = original


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "None-None"),
        ({"reasoning_effort": "low"}, "low-True"),
        ({"reasoning_effort": "none"}, "none-False"),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, "none-True"),
    ],
)
def test_an_effort_switches_thinking(model: Model, fields: dict[str, Any], text: str) -> None:
    original = model.tokenizer.chat_template
    model.tokenizer.chat_template = (
        "{{ reasoning_effort|default('None', true) }}-"
        "{{ 'None' if enable_thinking is not defined else enable_thinking }}"
    )
    try:
        assert render(Template(model.tokenizer), USER, **fields) == text
    finally:
        model.tokenizer.chat_template = original


def test_strict_is_for_the_engine_and_not_for_the_model(template: Template) -> None:
    strict = [{"type": "function", "function": {"name": "now", "strict": True}}]
    assert render(template, USER, tools=strict) == render(template, USER, tools=TOOLS[1:])


def test_continuing_and_ending_without_a_generation_prompt(template: Template) -> None:
    half = {"role": "assistant", "content": "The answer"}
    assert render(template, USER, half, continue_final_message=True).endswith("assistant\nThe answer")
    assert render(template, USER, add_generation_prompt=False).endswith("hello<|im_end|>\n")


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template": "{{ 1 }}"},
        {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
        {"chat_template_kwargs": {"tokenize": True}},
        {"continue_final_message": True, "add_generation_prompt": True},
    ],
)
def test_refused_options(template: Template, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        render(template, USER, **fields)


def test_a_template_that_refuses_is_the_requests_fault(model: Model) -> None:
    original = model.tokenizer.chat_template
    model.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    try:
        with pytest.raises(InvalidRequest, match="roles must alternate"):
            render(Template(model.tokenizer), USER)
    finally:
        model.tokenizer.chat_template = original
