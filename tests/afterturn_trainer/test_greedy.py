"""Asking an engine many prompts: in order, once, and stoppable."""

from dataclasses import replace
from pathlib import Path

import pytest

from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import EngineError
from afterturn_trainer.greedy import Asked, greedy_replies

ASKED = Asked("base", "base", "hash", ("one two", "three", "four five six"), 16)


def test_replies_come_in_the_order_of_the_prompts(scripted: EngineClient, tmp_path: Path) -> None:
    shares: list[float] = []
    replies = greedy_replies(scripted, ASKED, tmp_path, 3, shares.append)
    assert [reply.text for reply in replies] == list(ASKED.prompts)
    assert all(reply.finished and reply.reply_ids for reply in replies)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_the_same_is_asked_once(scripted: EngineClient, tmp_path: Path) -> None:
    first = greedy_replies(scripted, ASKED, tmp_path, 2, lambda share: None)
    shares: list[float] = []
    assert greedy_replies(scripted, ASKED, tmp_path, 2, shares.append) == first
    assert shares == []


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, identity="0f3a"),  # another adapter, perhaps under the same name
        replace(ASKED, model_hash="other"),
        replace(ASKED, prompts=("one two", "three", "four")),
        replace(ASKED, max_tokens=2),
    ],
)
def test_anything_else_is_asked_anew(scripted: EngineClient, tmp_path: Path, other: Asked) -> None:
    greedy_replies(scripted, ASKED, tmp_path, 2, lambda share: None)
    shares: list[float] = []
    greedy_replies(scripted, other, tmp_path, 2, shares.append)
    assert len(shares) == 3


def test_a_damaged_memory_is_asked_anew(scripted: EngineClient, tmp_path: Path) -> None:
    first = greedy_replies(scripted, ASKED, tmp_path, 2, lambda share: None)
    (tmp_path / f"{ASKED.key}.json").write_text('[{"text": "on')
    assert greedy_replies(scripted, ASKED, tmp_path, 2, lambda share: None) == first


def test_one_failure_fails_the_asking_and_is_not_remembered(scripted: EngineClient, tmp_path: Path) -> None:
    asked = replace(ASKED, prompts=("fine", "broken", "fine too"))
    with pytest.raises(EngineError):
        greedy_replies(scripted, asked, tmp_path, 1, lambda share: None)
    assert list(tmp_path.iterdir()) == []


def test_asking_stops_when_the_round_must(scripted: EngineClient, tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise InterruptedError

    asked = replace(ASKED, prompts=tuple(f"prompt {number}" for number in range(50)))
    with pytest.raises(InterruptedError):
        greedy_replies(scripted, asked, tmp_path, 2, stop)
    assert list(tmp_path.iterdir()) == []
