"""Overlap-guided choice, by hand."""

from math import log

import pytest
import torch

from afterturn_trainer.hint_choice import HintScore, choose_hint, score_hint


def test_a_score_by_hand() -> None:
    # Two positions, k = 2. π_old on S_t: (.6, .2) → w = (.75, .25); (.3, .3) → w = (.5, .5).
    old = torch.tensor([[log(0.6), log(0.2)], [log(0.3), log(0.3)]])
    # The teacher: (.3, .2) → |Δ| = ln 2, 0; (.3, .6) → 0, ln 2. Effect: mean(.75 ln 2, .5 ln 2) = .625 ln 2.
    teacher = torch.tensor([[log(0.3), log(0.2)], [log(0.3), log(0.6)]])
    support = torch.tensor([[4, 5], [6, 7]])
    teacher_top = torch.tensor([[5, 9], [7, 6]])  # shares one token, then both
    score = score_hint(support, old, teacher, teacher_top, torch.tensor([True, True]))
    assert score.overlap == 3
    assert score.effect == pytest.approx(0.625 * log(2), abs=1e-6)
    only_first = score_hint(support, old, teacher, teacher_top, torch.tensor([True, False]))
    assert (only_first.overlap, only_first.effect) == (1, pytest.approx(0.75 * log(2), abs=1e-6))


def test_a_hint_that_changes_nothing_never_wins() -> None:
    assert choose_hint([HintScore(40, 0.0), HintScore(10, 0.3)], min_effect=0.02) == 1


def test_the_greatest_overlap_wins_and_the_first_a_tie() -> None:
    assert choose_hint([HintScore(10, 0.5), HintScore(30, 0.1), HintScore(30, 0.9)], min_effect=0.02) == 1


def test_no_hint_strong_enough_means_no_distillation() -> None:
    assert choose_hint([HintScore(40, 0.01)], min_effect=0.02) is None
    assert choose_hint([], min_effect=0.0) is None
