"""Halves, the search for thresholds, and the rules of another revision."""

import subprocess
from pathlib import Path

import pytest
from bench.signals.halves import SPLITS, Split, halves, of
from bench.signals.stages import verdicts
from bench.signals.thresholds import THRESHOLDS, Threshold, macro_f1, search, using
from tests.afterturn_extractor.evaluation.rows import row

from afterturn_extractor import reaction, rules
from afterturn_extractor.evidence import Evidence, NextStatePart

ROOT = Path(__file__).parents[3]
SHARE = Threshold(reaction, "_WANTED_FROM", (0.9,))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("names", ["ab", "abc", "badce", "fedcba"])
def test_every_source_is_in_one_half_whatever_the_order_of_rows(split: Split, names: str) -> None:
    rows = [row(1, "Thanks!", source=name) for name in names]
    found = halves(rows, split)
    assert sorted(found.first + found.second) == sorted(names)
    assert found == halves(rows[::-1], split)
    assert len(of(rows, found.first)) + len(of(rows, found.second)) == len(rows)


def test_the_splits_are_by_name_order() -> None:
    rows = [row(1, "Thanks!", source=name) for name in "dacbe"]
    assert halves(rows, "alternate").first == ("a", "c", "e")
    assert halves(rows, "cut").first == ("a", "b", "c")
    assert list(halves(rows, "cut").both_ways())[1] == (("d", "e"), ("a", "b", "c"))


def test_thresholds_are_put_back_even_after_an_error() -> None:
    own = SHARE.now
    seen: list[float] = []

    def fails() -> None:
        with using([(SHARE, 0.9)]):
            seen.append(SHARE.now)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert (seen, SHARE.now) == ([0.9], own)


def test_every_threshold_is_there_and_its_own_value_is_within_what_is_tried() -> None:
    for found in THRESHOLDS.values():
        for one in found:
            assert min(one.tried) <= one.now <= max(one.tried), one.name


def test_a_search_keeps_what_is_already_best() -> None:
    rows = [row(-1, "That is wrong."), row(1, "Perfect, thanks!")]
    assert macro_f1(rows) == 1.0
    assert search(rows, "user").values == {}


def test_a_search_finds_the_value_that_reads_the_rows() -> None:
    # Half of what was searched for is in a hit; by label that is not enough.
    call = 'I look. <tool_call> search {"query": "harbour cranes northern shipyard"}'
    hits = "- Harbour cranes of Gdansk\n- Bread recipes"
    rows = [row(0, hits, assistant=call, next_role="tool"), row(1, "55", next_role="tool")]
    found = search(rows, "tool")
    assert found.values == {"tool_results._OFF_TOPIC_TO": 0.5}
    with using(found.by_threshold):
        assert macro_f1(rows) == 1.0
    assert macro_f1(rows) < 1.0


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository: the sources alone")
def test_the_rules_of_a_revision_answer_in_order() -> None:
    head = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    texts = ["Traceback (most recent call last):\nKeyError: 'x'", "55", "Error: connection refused", ""]
    evidence = [Evidence(None, (), "", (), (NextStatePart("tool", text),)) for text in texts]
    assert verdicts(head, evidence) == [rules.judge(one).verdict for one in evidence] == [-1, 1, None, 0]
