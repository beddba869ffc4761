"""The gate's decisions, with numbers by hand."""

import json
import math

import pytest

from afterturn_trainer.gate import (
    GateLimits,
    decide,
    judge_bounded,
    judge_drift,
    judge_kept,
    judge_real,
    largest_move,
)
from afterturn_trainer.margin import judge_margins
from afterturn_trainer.probes import ProbeReport
from afterturn_trainer.yardstick import Passage, Shift

LIMITS = GateLimits()


def shift(turn_id: str, new: tuple[float, ...], live: tuple[float, ...], kl: float = 0.1) -> Shift:
    passage = Passage(turn_id, (1, 2), tuple(range(3, 3 + len(new))))
    return Shift(passage, new, live, (kl,) * len(new))


def probes(solved: float, empty: float = 0.0, unfinished: float = 0.2, looping: float = 0.0) -> ProbeReport:
    return ProbeReport(100, solved, empty, unfinished, looping, frozenset(), {})


def test_the_largest_move_is_found_whatever_its_sign() -> None:
    found, position, move = largest_move(
        [shift("a", (-1.0, -2.0), (-1.5, -2.0)), shift("b", (-1.0, -3.0), (-1.0, -2.25))]
    )
    assert (found.passage.turn_id, position, move) == ("b", 1, -0.75)


@pytest.mark.parametrize(
    ("trainer", "engine", "noise", "outcome"),
    [
        (0.5, 0.54, 0.0, "passed"),  # within 10 %
        (0.5, 0.56, 0.0, "refused"),
        (0.05, 0.058, 0.0, "passed"),  # within 0.01
        (0.05, 0.0, 0.0, "refused"),  # the engine serves something else, or nothing
        (0.05, 0.0, 0.02, "refused"),  # but not where rounding alone is that large
        (0.5, -0.5, 0.0, "refused"),
        (1e-4, 1e-4, 0.0, "refused"),  # an adapter that does nothing
        (0.5, math.nan, 0.0, "refused"),
    ],
)
def test_the_engine_must_show_the_trainers_difference(
    trainer: float, engine: float, noise: float, outcome: str
) -> None:
    assert judge_real("t", 0, trainer, engine, noise, LIMITS).outcome == outcome


def test_drift_is_a_mean_over_tokens() -> None:
    near = judge_drift([shift("a", (0.0,) * 3, (0.0,) * 3, 0.2), shift("b", (0.0,), (0.0,), 1.8)], LIMITS)
    assert near.kl == pytest.approx((3 * 0.2 + 1.8) / 4)
    assert near.outcome == "passed"
    assert judge_drift([shift("a", (0.0,), (0.0,), 1.5)], LIMITS).outcome == "refused"
    assert judge_drift([shift("a", (0.0,), (0.0,), math.nan)], LIMITS).outcome == "refused"


def test_five_points_may_be_lost_and_no_more() -> None:
    assert judge_kept(probes(0.60), probes(0.60), probes(0.55), LIMITS).outcome == "passed"
    lost = judge_kept(probes(0.50), probes(0.60), probes(0.54), LIMITS)
    assert lost.outcome == "refused"
    assert lost.reasons == ("probes solved fell from 0.600 to 0.540",)
    assert judge_kept(probes(0.60), probes(0.60), probes(0.70), LIMITS).outcome == "passed"


@pytest.mark.parametrize("kind", ["empty", "unfinished", "looping"])
def test_odd_replies_may_not_pile_up(kind: str) -> None:
    """B20: a policy that falls silent or goes in circles keeps the old one serving."""
    refused = judge_kept(probes(0.6), probes(0.6), probes(0.6, **{kind: 0.5}), LIMITS)
    assert refused.outcome == "refused"
    assert kind in refused.reasons[0]


def test_any_refusal_refuses_and_says_why() -> None:
    real = judge_real("t", 0, 0.5, 0.0, 0.0, LIMITS)
    against = judge_margins([-0.1 - 0.001 * i for i in range(16)])
    report = decide(real, against, judge_drift([shift("a", (0.0,), (0.0,), 2.0)], LIMITS), None)
    assert not report.passed
    assert len(report.reasons) == 3
    assert decide(judge_real("t", 0, 0.5, 0.5, 0.0, LIMITS), judge_margins([]), None, None).passed


def test_the_report_is_json_without_nan() -> None:
    report = decide(judge_real("t", 0, 0.5, math.nan, 0.0, LIMITS), judge_margins([0.1]), None, None)
    text = json.dumps(report.as_json(), allow_nan=False)
    assert json.loads(text)["real"]["engine"] is None
    assert json.loads(text)["learned"]["outcome"] == "not enough data"


def test_small_losses_of_many_rounds_do_not_add_up() -> None:
    # Each step loses less than five points to the live adapter, together they lose six to the base.
    slid = judge_kept(probes(0.60), probes(0.57), probes(0.54), LIMITS)
    assert slid.outcome == "refused"
    assert "the base model solves 0.600" in slid.reasons[0]


@pytest.mark.parametrize(("trainer", "noise"), [(0.005, 0.0), (0.3, 0.1)])
def test_an_engine_that_ignores_the_adapter_is_refused_within_any_tolerance(
    trainer: float, noise: float
) -> None:
    assert judge_real("t", 0, trainer, 0.0, noise, LIMITS).outcome == "refused"
    assert judge_real("t", 0, trainer, trainer, noise, LIMITS).outcome == "passed"


def test_one_of_several_sources_must_not_make_up_too_much() -> None:
    real = judge_real("t", 0, 0.5, 0.5, 0.0, LIMITS)
    bounded = judge_bounded({"user": 9, "tool bash": 1}, 0.8)
    assert (bounded.outcome, bounded.largest) == ("refused", 0.9)
    report = decide(real, judge_margins([]), None, None, bounded)
    assert report.reasons == ("one source makes up 0.90 of the round, over 0.8",)
    assert judge_bounded({"user": 4, "tool bash": 1}, 0.8).outcome == "passed"
    assert judge_bounded({"user": 9}, 0.8).outcome == "passed"
    assert judge_bounded({"user": 2, "tool bash": 1}, 0.3).outcome == "passed"
