from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.afterturn_extractor.evaluation.rows import row, says

from afterturn_extractor import rules
from afterturn_extractor.evaluation.judged import judge_rows
from afterturn_extractor.evaluation.rows import BadRow, Row, read_rows
from afterturn_extractor.evaluation.score import Scores, score
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.judging import Judge

# Labelled data that is never part of this repository lies in a folder beside or above it.
_DATA = Path("shared", "data", "next_state_eval_dev.jsonl")
DEVELOPMENT_SET = next((at / _DATA for at in Path(__file__).parents if (at / _DATA).exists()), _DATA)


CORPUS = Path(__file__).parents[2] / "data" / "next_states.jsonl"


def figures(rows: Sequence[Row], judge: Judge = says) -> Scores:
    return score(judge_rows(rows, judge))


def test_figures_by_hand() -> None:
    rows = [row(1, "+"), row(1, "?"), row(-1, "-"), row(-1, "+"), row(0, "?"), row(0, "0")]
    user = figures(rows).core.user
    assert user.n == 6
    assert user.accuracy == pytest.approx(4 / 6)
    # +1: precision 1/2, recall 1/2; -1: 1, 1/2; 0: 2/3, 1.
    assert user.per_class["+1"].f1 == pytest.approx(0.5)
    assert user.per_class["-1"].f1 == pytest.approx(2 / 3)
    assert user.per_class["0"].f1 == pytest.approx(0.8)
    assert user.macro_f1 == pytest.approx((0.5 + 2 / 3 + 0.8) / 3)


def test_no_verdict_counts_as_zero_but_not_as_covered() -> None:
    report = figures([row(0, "?"), row(0, "0")])
    assert report.core.user.per_class["0"].f1 == 1.0
    assert report.coverage == 0.5


def test_within_source_takes_sources_with_two_classes() -> None:
    rows = [row(1, "+", source="b"), row(-1, "-", source="b"), row(1, "-"), row(1, "-")]
    assert figures(rows).core.within_source_macro_f1 == 1.0


def test_tiers_and_roles_are_apart() -> None:
    rows = [
        row(1, "+"),
        row(1, "-", tier="hard"),
        row(-1, "+", tier="directive_only"),
        row(1, "+", next_role="tool"),
    ]
    report = figures(rows)
    assert (report.core.user.n, report.core.tool.n, report.hard.user.n, report.hard.tool.n) == (1, 1, 1, 0)
    assert report.core.user.accuracy == 1.0


def test_directives_count_where_annotated() -> None:
    rows = [
        row(-1, "-!", directive=True),
        row(-1, "-", directive=True, tier="directive_only"),
        row(1, "+!", directive=False),
        row(1, "+!", directive=None),
    ]
    directive = figures(rows).directive
    assert (directive.precision, directive.recall, directive.f1) == (0.5, 0.5, 0.5)


def test_a_failing_judge_raises() -> None:
    def fails(evidence: Evidence) -> Judgement:
        raise RuntimeError("no judge")

    with pytest.raises(RuntimeError, match="no judge"):
        figures([row(1, "+")], fails)


def test_calls_in_the_text_are_calls() -> None:
    evidence = row(1, "+", assistant='Let me see. <tool_call> search {"q": "x"}').evidence()
    assert evidence.reply_text == "Let me see."
    assert [(call.name, call.arguments) for call in evidence.reply_tool_calls] == [("search", '{"q": "x"}')]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "1"}\n', encoding="utf-8")
    with pytest.raises(BadRow, match=r"rows\.jsonl:1"):
        read_rows(file)


@pytest.mark.skipif(
    not DEVELOPMENT_SET.exists(), reason="the labelled development set is not on this machine"
)
def test_the_rules_hold_on_the_development_set() -> None:
    report = figures(read_rows(DEVELOPMENT_SET), rules.judge)
    assert report.core.user.macro_f1 >= 0.85
    assert report.core.tool.macro_f1 >= 0.85
    assert report.core.within_source_macro_f1 >= 0.85
    assert report.directive.f1 >= 0.81


def test_undecidable_rows_count_for_nothing_but_themselves() -> None:
    rows = [row(1, "+"), row(None, "?", tier="undecidable"), row(None, "-", tier="undecidable")]
    report = figures(rows)
    assert (report.core.user.n, report.coverage) == (1, 1.0)
    assert report.undecidable is not None
    assert (report.undecidable.n, report.undecidable.no_verdict) == (2, 0.5)


@pytest.mark.parametrize(("label", "tier"), [(None, "core"), (1, "undecidable")])
def test_a_label_is_missing_only_where_nobody_can_give_one(label: int | None, tier: str) -> None:
    with pytest.raises(ValueError, match="undecidable"):
        row(label, "+", tier=tier)


def test_the_rules_hold_on_the_corpus() -> None:
    report = figures(read_rows(CORPUS), rules.judge)
    assert report.core.user.macro_f1 >= 0.95
    assert report.core.tool.macro_f1 >= 0.95
    assert report.core.within_source_macro_f1 >= 0.95
    assert report.directive.f1 >= 0.87
    assert report.undecidable is not None
    assert report.undecidable.no_verdict >= 0.9


def test_the_corpus_is_readable_and_has_every_kind() -> None:
    rows = read_rows(CORPUS)
    assert len({one.id for one in rows}) == len(rows) >= 300
    assert {(one.next_role, one.label) for one in rows} == {
        (role, label) for role in ("user", "tool") for label in (-1, 0, 1, None)
    }
