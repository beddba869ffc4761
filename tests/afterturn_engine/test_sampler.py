"""Drawing and scoring on four-token vocabularies, with numbers worked out by hand."""

import math
from collections import Counter
from typing import Any

import pytest
import torch

from afterturn_engine.sampler import draw, score
from afterturn_engine.sequence import Sampling, Score

# Probabilities 0.5, 0.25, 0.125, 0.125.
LOGITS = torch.tensor([0.5, 0.25, 0.125, 0.125]).log() + 3.0


def drawn(
    times: int = 400, prompt: tuple[int, ...] = (), reply: tuple[int, ...] = (), **fields: Any
) -> Counter[int]:
    generator = torch.Generator().manual_seed(1)
    sampling = Sampling(max_tokens=9, **fields)
    return Counter(draw(LOGITS, sampling, prompt, reply, generator) for _ in range(times))


def test_scores_are_raw_log_probabilities_with_the_token_first() -> None:
    scores = score(LOGITS, 1, top=2)
    assert [s.token_id for s in scores] == [1, 0]
    assert [s.rank for s in scores] == [2, 1]
    assert scores[0].logprob == pytest.approx(math.log(0.25), abs=1e-6)
    assert scores[1].logprob == pytest.approx(math.log(0.5), abs=1e-6)


def test_without_top_only_the_token_itself_is_scored() -> None:
    assert score(LOGITS, 0, top=0) == (Score(0, pytest.approx(math.log(0.5), abs=1e-6), 1),)


def test_greedy_takes_the_most_likely() -> None:
    assert drawn(3, temperature=0.0) == {0: 3}


def test_frequencies_follow_the_probabilities() -> None:
    counts = drawn(4000)
    for token_id, probability in enumerate((0.5, 0.25, 0.125, 0.125)):
        assert counts[token_id] / 4000 == pytest.approx(probability, abs=0.03)


def test_temperature_sharpens() -> None:
    # At 0.5 the weights are squared: 16 : 4 : 1 : 1.
    assert drawn(4000, temperature=0.5)[0] / 4000 == pytest.approx(16 / 22, abs=0.03)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.6}, {0, 1}),
        ({"top_p": 0.8}, {0, 1, 2}),
        ({"top_k": 3, "top_p": 0.5}, {0}),
        ({"min_p": 0.4}, {0, 1}),
        ({"top_k": -1, "top_p": 1.0}, {0, 1, 2, 3}),
    ],
)  # fmt: skip
def test_filters_leave_exactly(fields: dict[str, Any], left: set[int]) -> None:
    # Tokens 2 and 3 are equally likely: which one is cut is open.
    assert {min(token_id, 2) if len(left) == 3 else token_id for token_id in drawn(**fields)} == left


def test_presence_and_frequency_penalties_count_the_reply_only() -> None:
    assert drawn(1, temperature=0.0, prompt=(0, 0, 0), presence_penalty=1.0) == {0: 1}
    # 0.5 / e < 0.25
    assert drawn(1, temperature=0.0, reply=(0,), presence_penalty=1.0) == {1: 1}
    assert drawn(1, temperature=0.0, reply=(0, 0), frequency_penalty=0.3) == {0: 1}
    assert drawn(1, temperature=0.0, reply=(0, 0, 0), frequency_penalty=0.3) == {1: 1}


def test_repetition_penalty_counts_the_prompt_too() -> None:
    assert drawn(1, temperature=0.0, prompt=(0,), repetition_penalty=2.0) == {1: 1}


def test_no_end_token_before_min_tokens() -> None:
    fields: dict[str, Any] = {"temperature": 0.0, "eos_token_ids": frozenset({0}), "min_tokens": 2}
    assert drawn(1, reply=(1,), **fields) == {1: 1}
    assert drawn(1, reply=(1, 1), **fields) == {0: 1}


def test_bias_moves_a_token() -> None:
    assert drawn(1, temperature=0.0, logit_bias={3: 5.0}) == {3: 1}


def test_a_draw_uses_one_number_of_the_generator() -> None:
    first, second = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    draw(LOGITS, Sampling(9), (), (), first)
    draw(LOGITS, Sampling(9, top_p=0.7), (), (), second)
    assert torch.equal(first.get_state(), second.get_state())


def test_a_nucleus_wider_than_the_first_guess_is_found_whole() -> None:
    flat = torch.zeros(5000)
    generator = torch.Generator().manual_seed(3)
    tokens = {draw(flat, Sampling(9, top_p=0.9), (), (), generator) for _ in range(1500)}
    assert 1100 < len(tokens) <= 4500
