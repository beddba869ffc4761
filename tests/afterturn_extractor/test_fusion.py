import pytest

from afterturn_extractor.evidence import FeedbackKind, Hint, Judgement, NextStatePart, Source, Verdict
from afterturn_extractor.fusion import MalformedFeedback, from_feedback, from_value, fuse


def said(verdict: Verdict | None, source: Source, *hints: str) -> Judgement:
    return Judgement(verdict, source, (verdict,), source, tuple(Hint(text, source) for text in hints))


def feedback(kind: FeedbackKind, value: float | None = None, text: str = "") -> Judgement:
    return from_feedback(NextStatePart("outcome" if kind == "outcome" else "feedback", text, value, kind))


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.0, -1), (0.3, -1), (0.31, 0), (0.5, 0), (0.69, 0), (0.7, 1), (1.0, 1)]
)
def test_values_become_verdicts(value: float, verdict: int) -> None:
    assert from_value(value) == verdict
    assert feedback("score", value).verdict == verdict
    assert feedback("outcome", value).verdict == verdict


def test_each_kind_says_what_the_contract_says() -> None:
    assert feedback("thumb", 1).verdict == 1
    assert feedback("thumb", -1).verdict == -1
    assert feedback("preferred", text="A better reply").verdict == -1
    assert feedback("preferred", text="A shorter reply").hints == ()
    assert feedback("comment", text="Perfect, thanks!").verdict == 1
    assert feedback("comment", text="What time is it?").verdict == 0
    assert feedback("outcome", 1.0).source == "outcome"
    correction = feedback("correction", text="Check the calendar first")
    assert (correction.verdict, correction.source) == (-1, "explicit")
    assert correction.hints == (Hint("Check the calendar first", "explicit"),)


def test_a_thumbs_reason_is_a_hint() -> None:
    assert feedback("thumb", -1, "too long").hints == (Hint("Too long", "explicit"),)
    assert feedback("thumb", 1, "just the right length").hints == ()


@pytest.mark.parametrize(
    ("kind", "value"), [("thumb", None), ("thumb", 0.5), ("score", None), ("outcome", None), ("score", 1.5)]
)
def test_malformed_feedback_raises(kind: FeedbackKind, value: float | None) -> None:
    with pytest.raises(MalformedFeedback):
        feedback(kind, value)


def test_feedback_without_a_kind_raises() -> None:
    with pytest.raises(MalformedFeedback):
        from_feedback(NextStatePart("feedback", "hm"))


def test_sources_weigh_in_order() -> None:
    parts = [said(1, "rules"), said(-1, "judge"), said(1, "outcome"), said(-1, "explicit")]
    for at, source in enumerate(["explicit", "outcome", "judge", "rules"]):
        fused = fuse(parts[: 4 - at])
        assert fused.source == source
        assert fused.verdict == parts[3 - at].verdict


def test_the_latest_of_one_source_wins() -> None:
    assert fuse([said(-1, "explicit"), said(1, "explicit")]).verdict == 1


def outcome(value: float, weight: float) -> Judgement:
    return from_feedback(NextStatePart("outcome", "", value, "outcome", weight))


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.25, 0.125])
def test_the_weight_of_an_outcome_leaves_its_verdict_alone(weight: float) -> None:
    assert (outcome(0.7, weight).verdict, outcome(0.7, weight).weight) == (1, weight)
    assert (outcome(0.3, weight).verdict, outcome(0.3, weight).weight) == (-1, weight)


def test_the_weight_is_that_of_the_part_that_decides() -> None:
    assert fuse([said(-1, "judge"), outcome(1.0, 0.25)]).weight == 0.25
    assert fuse([outcome(0.0, 0.5), outcome(1.0, 0.25)]).weight == 0.25
    assert fuse([outcome(1.0, 0.25), outcome(0.0, 0.5)]).weight == 0.5
    for parts in ([outcome(1.0, 0.25), feedback("thumb", 1)], [feedback("thumb", 1), outcome(1.0, 0.25)]):
        assert (fuse(parts).source, fuse(parts).weight) == ("explicit", 1.0)
    # A remark without an opinion leaves the word to the outcome.
    assert fuse([outcome(1.0, 0.25), said(None, "explicit")]).weight == 0.25


def test_only_outcomes_have_less_than_the_whole_weight() -> None:
    assert from_feedback(NextStatePart("feedback", "", 1, "thumb", 0.5)).weight == 1.0


def test_no_verdict_leaves_the_word_to_the_next_source() -> None:
    fused = fuse([said(None, "judge"), said(-1, "rules", "Be brief")])
    assert (fused.verdict, fused.source) == (-1, "rules")
    assert fused.hints == (Hint("Be brief", "rules"),)


def test_none_is_not_zero() -> None:
    assert fuse([said(None, "judge"), said(None, "rules")]).verdict is None
    assert fuse([said(None, "judge"), said(0, "rules")]).verdict == 0
    assert fuse([said(0, "judge"), said(-1, "rules")]).verdict == 0


def test_disagreement_is_recorded_and_its_hints_dropped() -> None:
    fused = fuse([said(1, "explicit"), said(-1, "rules", "Be brief")])
    assert (fused.verdict, fused.hints) == (1, ())
    assert "disagreement" in fused.flags
    assert "disagreement" not in fuse([said(1, "explicit"), said(0, "judge"), said(None, "rules")]).flags


def test_the_weightiest_three_hints_are_kept_shortest_first() -> None:
    fused = fuse(
        [
            said(-1, "rules", "Short", "Shorter yet"),
            said(-1, "judge", "The judge says so"),
            said(-1, "explicit", "The user says so quite plainly"),
        ]
    )
    assert [hint.source for hint in fused.hints] == ["rules", "judge", "explicit"]
    assert fused.hints[0].text == "Short"


def test_nothing_to_fuse_raises() -> None:
    with pytest.raises(ValueError, match="nothing"):
        fuse([])
