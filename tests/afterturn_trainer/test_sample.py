"""Samples: values that fit together, or an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn_trainer.faults import Misaligned
from afterturn_trainer.sample import Sample, cut_middle, make_sample, verdict_baseline


def plain(**changes: object) -> Sample:
    values: dict[str, object] = {"verdict": -1}
    values.update(changes)
    return make_sample("t", [1, 2], [3, 4, 5], [-0.1, -0.2, -0.3], **values)  # type: ignore[arg-type]


def test_advantage_is_the_verdict_less_the_baseline() -> None:
    assert plain(verdict=-1, baseline=-0.25).advantage == -0.75
    assert plain(verdict=1, baseline=-0.25).advantage == 1.25


def test_the_weight_makes_the_advantage_smaller() -> None:
    assert plain(verdict=-1, baseline=-0.25, weight=0.5).advantage == -0.375
    assert plain(verdict=1, baseline=-0.25, weight=0.125).advantage == 0.15625
    for weight in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(ValueError, match="weight"):
            plain(weight=weight)


@pytest.mark.parametrize("verdict", [0, None])
def test_no_verdict_fills_no_verdict_term(verdict: int | None) -> None:
    sample = plain(verdict=verdict)
    assert sample.advantage is None
    assert not sample.trainable
    assert plain(verdict=verdict, teacher_prompts=[[1, 9]]).trainable


def test_a_stale_turn_keeps_its_hint_only() -> None:
    assert not plain(stale=True).trainable
    sample = plain(stale=True, teacher_prompts=[[1, 9]])
    assert sample.trainable
    assert not sample.has_verdict_term


@pytest.mark.parametrize(
    ("reply", "logprobs", "mask"),
    [
        ([3, 4], [-0.1], None),
        ([3], [-0.1, -0.2], None),
        ([3, 4], [-0.1, -0.2], [True]),
        ([3, 4], [-0.1, -0.2], [False, False]),
        ([], [], None),
        ([3], [float("nan")], None),
        ([3], [float("-inf")], None),
        ([3], [0.5], None),
    ],
)
def test_arrays_that_do_not_align_raise(
    reply: list[int], logprobs: list[float], mask: list[bool] | None
) -> None:
    """B23 and B33: never padded, never guessed, no all-zero mask, no log-probability of −inf."""
    with pytest.raises(Misaligned):
        make_sample("t", [1], reply, logprobs, verdict=1, loss_mask=mask)


def test_a_nan_advantage_is_refused() -> None:
    with pytest.raises(Misaligned, match="advantage"):
        plain(baseline=float("nan"))


def test_the_end_of_turn_token_carries_loss_even_as_the_pad_token() -> None:
    """B23: what was sampled is what is trained, whatever else the id is used for."""
    sample = make_sample("t", [1, 2], [7, 2], [-0.1, -0.1], verdict=1)
    assert sample.loss_mask == (True, True)


def test_the_baseline_is_shrunk_and_windowed() -> None:
    assert verdict_baseline([]) == 0.0
    assert verdict_baseline([-1] * 8) == pytest.approx(-8 / 24)
    assert verdict_baseline([-1] * 10 + [1] * 64) == pytest.approx(64 / 80)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(6, 60))
def test_a_cut_prompt_fits_and_keeps_both_ends(prompt: list[int], limit: int) -> None:
    kept, cut = cut_middle(prompt, limit, (99, 98))
    assert len(kept) <= limit
    assert (kept[0], kept[-1]) == (prompt[0], prompt[-1])
    assert cut == (0 if 99 not in kept else len(prompt) - len(kept) + 2)


def test_no_room_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="room"):
        cut_middle(range(9), 3, (99, 98))
