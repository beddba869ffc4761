"""Hints reach the teacher's prompt, at the right place, and nothing else changes."""

from pathlib import Path
from typing import cast

import pytest
from transformers import AutoTokenizer

from afterturn_trainer.teacher_prompt import Tokenizer, Told, end_of, hint_note, last_told, teacher_prompt

HINT = "Use metric units."
Message = dict[str, object]


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return cast(Tokenizer, AutoTokenizer.from_pretrained(tiny_folder))


def chatml(tokenizer: Tokenizer, *messages: tuple[str, str]) -> tuple[int, ...]:
    text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages)
    return tuple(tokenizer.encode(f"{text}<|im_start|>assistant\n", add_special_tokens=False))


def shown(tokenizer: Tokenizer, ids: tuple[int, ...] | None) -> str:
    assert ids is not None
    return tokenizer.decode(ids, skip_special_tokens=False)


def test_the_hint_follows_the_users_words(tokenizer: Tokenizer) -> None:
    prompt = chatml(tokenizer, ("system", "be brief"), ("user", "how far is it?"))
    teacher = teacher_prompt(prompt, Told("user", "how far is it?"), HINT, tokenizer)
    before, after = shown(tokenizer, prompt).split("how far is it?")
    assert shown(tokenizer, teacher) == f"{before}how far is it?{hint_note(HINT, 'user')}{after}"


def test_without_the_hint_the_ids_are_the_students(tokenizer: Tokenizer) -> None:
    """B20: what the student reads is byte-identical with and without a hint."""
    prompt = chatml(tokenizer, ("user", "one"), ("assistant", "two"), ("user", "three"))
    teacher = teacher_prompt(prompt, Told("user", "three"), HINT, tokenizer)
    assert teacher is not None
    note = tokenizer.encode(hint_note(HINT, "user"), add_special_tokens=False)
    at = end_of(prompt, "three", tokenizer)
    assert at is not None
    assert teacher[at : at + len(note)] == tuple(note)
    assert teacher[:at] + teacher[at + len(note) :] == prompt


def test_a_tool_result_gets_a_note(tokenizer: Tokenizer) -> None:
    prompt = chatml(tokenizer, ("user", "list the files"), ("assistant", "ls"), ("tool", "a.txt\nb.txt"))
    told = last_told(
        [
            {"role": "user", "content": "list the files"},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": "a.txt\nb.txt"},
        ]
    )
    text = shown(tokenizer, teacher_prompt(prompt, told, HINT, tokenizer))
    assert f"a.txt\nb.txt\n\nNote: {HINT}<|im_end|>" in text


def test_the_last_of_equal_messages_is_meant(tokenizer: Tokenizer) -> None:
    prompt = chatml(tokenizer, ("user", "again"), ("assistant", "no"), ("user", "again"))
    text = shown(tokenizer, teacher_prompt(prompt, Told("user", "again"), HINT, tokenizer))
    assert text.index(HINT) > text.rindex("again")


def test_a_role_is_not_taken_for_a_message(tokenizer: Tokenizer) -> None:
    """The user says "assistant", which also stands at the end of every prompt."""
    prompt = chatml(tokenizer, ("user", "assistant"))
    text = shown(tokenizer, teacher_prompt(prompt, Told("user", "assistant"), HINT, tokenizer))
    assert text.index(HINT) < text.rindex("<|im_end|>")


def test_a_history_cut_in_the_middle_still_has_its_end(tokenizer: Tokenizer) -> None:
    long = "the sea and the stars " * 60
    prompt = chatml(tokenizer, ("user", long))
    cut = (*prompt[:5], *prompt[-120:])
    text = shown(tokenizer, teacher_prompt(cut, Told("user", long), HINT, tokenizer))
    assert text.index(HINT) > text.rindex("stars")


def test_a_message_that_is_not_in_the_prompt_gives_no_teacher(tokenizer: Tokenizer) -> None:
    prompt = chatml(tokenizer, ("user", "one"))
    assert teacher_prompt(prompt, Told("user", "something else entirely"), HINT, tokenizer) is None
    assert teacher_prompt(prompt, Told("user", "   "), HINT, tokenizer) is None


def test_a_raw_completion_is_told_first(tokenizer: Tokenizer) -> None:
    prompt = tuple(tokenizer.encode("once upon", add_special_tokens=False))
    teacher = teacher_prompt(prompt, None, HINT, tokenizer)
    assert shown(tokenizer, teacher) == f"{HINT}\n\nonce upon"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([{"role": "system", "content": "s"}], None),
        ([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], Told("user", "u")),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
         Told("user", "b")),
        ([{"role": "user", "content": "u"}, {"role": "tool", "content": "t"}], Told("tool", "t")),
    ],
)  # fmt: skip
def test_what_was_told_last(messages: list[Message], expected: Told | None) -> None:
    assert last_told(messages) == expected
