import pytest
from tests.afterturn_extractor.evaluation.rows import row, says

from afterturn_extractor.evaluation.disagreements import worst
from afterturn_extractor.evaluation.judged import Judged, judge_rows
from afterturn_extractor.evaluation.matrix import Matrix
from afterturn_extractor.evaluation.reliability import reliability
from afterturn_extractor.evaluation.rows import Row
from afterturn_extractor.evidence import Judgement


def test_accuracy_is_told_for_every_share_of_votes() -> None:
    rows = [row(1, "++++"), row(-1, "++++"), row(1, "+++-"), row(1, "?+--"), row(0, "0")]
    rows += [row(-1, "-+--", tier="directive_only")]
    found = reliability(judge_rows(rows, says))
    assert [(level.share, level.n, level.accuracy) for level in found.levels] == [
        (pytest.approx(2 / 3), 1, 1.0),
        (1.0, 2, 0.5),
    ]
    assert found.gap == pytest.approx((1 / 3 + 2 * 0.5) / 3)


def test_verdicts_of_the_rules_are_no_votes() -> None:
    said = Judgement(1, "rules", (1,))
    assert reliability([Judged(row(1, "+"), said)]).levels == ()


def test_opposites_are_worse_than_neutral_and_agreement_worse_than_doubt() -> None:
    rows = [
        row(0, "+++", id="half"),
        row(-1, "++-+", id="doubtful"),
        row(-1, "++++", id="sure"),
        row(-1, "++++", id="hard", tier="hard"),
        row(-1, "?", id="silent"),
        row(1, "++", id="right"),
        row(-1, "+++", id="not scored", tier="directive_only"),
        row(None, "+++", id="nobody knows", tier="undecidable"),
    ]
    found = worst(judge_rows(rows, says), 10)
    assert [one.row.id for one in found] == ["sure", "doubtful", "hard", "half", "nobody knows"]
    assert [one.row.id for one in worst(judge_rows(rows, says), 2)] == ["sure", "doubtful"]


def test_a_matrix_counts_every_row_once() -> None:
    rows = [row(1, "+"), row(1, "?"), row(-1, "+"), row(None, "?", tier="undecidable")]
    matrix = Matrix.of(judge_rows(rows, says))
    assert (matrix.n, matrix.labels) == (4, (-1, 1, None))
    assert (matrix.row(1), matrix.row(None)) == ((0, 0, 1, 1), (0, 0, 0, 1))


def test_rows_judged_at_once_keep_their_order() -> None:
    rows: list[Row] = [row(1, sign, id=str(number)) for number, sign in enumerate("+-0?" * 20)]
    done: list[None] = []
    at_once = judge_rows(rows, says, at_once=4, done=lambda: done.append(None))
    assert at_once == judge_rows(rows, says)
    assert len(done) == len(rows)
