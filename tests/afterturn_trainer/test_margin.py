"""Gate 2 by hand."""

import pytest

from afterturn_trainer.margin import judge_margins, student_quantile, turn_margin


def test_a_turn_s_margin_is_signed_and_per_token() -> None:
    # mean(−1 − −2, −2 − −2.5) = mean(1, .5) = .75
    assert turn_margin(1, [-1.0, -2.0], [-2.0, -2.5]) == pytest.approx(0.75)
    assert turn_margin(-1, [-1.0, -2.0], [-2.0, -2.5]) == pytest.approx(-0.75)


def test_the_interval_by_hand() -> None:
    # 8 × .1 and 8 × .3: mean .2, s = .1·√(16/15) = .10328, /√16 = .02582; t(.95, 15) = 1.7531.
    report = judge_margins([0.1, 0.3] * 8)
    assert report.outcome == "passed"
    assert report.mean == pytest.approx(0.2)
    assert report.low == pytest.approx(0.2 - 1.7531 * 0.02582, abs=1e-4)
    assert report.high == pytest.approx(0.2 + 1.7531 * 0.02582, abs=1e-4)


def test_an_interval_wholly_below_zero_refuses() -> None:
    assert judge_margins([-0.1, -0.3] * 8).outcome == "refused"
    assert judge_margins([-0.3, 0.2] * 8).outcome == "passed"  # it reaches above 0


@pytest.mark.parametrize("turns", [0, 1, 2, 15])
def test_below_sixteen_turns_it_does_not_decide(turns: int) -> None:
    report = judge_margins([-1.0] * turns)
    assert report.outcome == "not enough data"
    assert report.turns == turns


def test_what_does_not_fit_raises() -> None:
    with pytest.raises(ValueError, match="align"):
        turn_margin(1, [-1.0], [-1.0, -2.0])
    with pytest.raises(ValueError, match="verdict"):
        turn_margin(0, [-1.0], [-1.0])
    with pytest.raises(ValueError, match="finite"):
        judge_margins([float("nan")] * 20)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 6.3138), (2, 2.9200), (3, 2.3534), (5, 2.0150), (15, 1.7531), (60, 1.6706)]
)
def test_student_s_quantile_matches_the_tables(freedom: int, expected: float) -> None:
    assert student_quantile(0.95, freedom) == pytest.approx(expected, abs=0.01)
