"""The page, read back by a parser: figures add up, and hostile text stays text."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.afterturn_extractor.evaluation.rows import row, says

from afterturn_extractor import rules
from afterturn_extractor.evaluation.judged import Judged, judge_rows
from afterturn_extractor.evaluation.report import page
from afterturn_extractor.evaluation.rows import TIERS, Row, read_rows
from afterturn_extractor.evaluation.score import score
from afterturn_extractor.judging import Judge

CORPUS = Path(__file__).parents[2] / "data" / "next_states.jsonl"


class Page(HTMLParser):
    """The tags and the text of a page, and the counts in its matrices by name."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said = ""
        self.matrices: dict[str, list[int]] = {}
        self.declared: dict[str, int] = {}
        self._in: str | None = None
        self._cell = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        held = dict(attrs)
        if tag == "table":
            self._in = held.get("data-name")
            if self._in is not None:
                assert self._in not in self.matrices
                self.matrices[self._in] = []
                self.declared[self._in] = int(held["data-n"] or "")
        self._cell = tag == "td" and self._in is not None

    def handle_data(self, data: str) -> None:
        self.said += data
        if self._cell and self._in is not None:
            self.matrices[self._in].append(int(data))
            self._cell = False


def read(rows: list[Row], judge: Judge = says, file: str = "rows.jsonl") -> tuple[Page, list[Judged]]:
    judged = judge_rows(rows, judge)
    return Page(page(file, "a judge", score(judged), judged)), judged


def test_every_row_of_the_corpus_is_in_one_matrix_of_its_source_and_one_of_its_tier() -> None:
    rows = read_rows(CORPUS)
    found, _ = read(rows, rules.judge)
    for tier in TIERS:
        here = [one for one in rows if one.tier == tier]
        for source in {one.source for one in here}:
            n = sum(one.source == source for one in here)
            assert sum(found.matrices[f"{source}, {tier}"]) == found.declared[f"{source}, {tier}"] == n
        for role in {one.next_role for one in here}:
            assert sum(found.matrices[f"{tier}, {role}"]) == sum(one.next_role == role for one in here)
    sources = {f"{one.source}, {one.tier}" for one in rows}
    assert sum(sum(found.matrices[name]) for name in sources) == len(rows)


def test_the_cells_are_verdicts_by_label() -> None:
    rows = [row(-1, "-"), row(-1, "+"), row(-1, "+"), row(1, "?"), row(1, "0"), row(1, "+")]
    found, _ = read(rows)
    assert found.matrices["a, core"] == [1, 0, 2, 0, 0, 1, 1, 1]


def test_a_judge_without_votes_is_said_to_have_none() -> None:
    found, _ = read(read_rows(CORPUS), rules.judge)
    assert "the judge casts none" in found.said
    assert "svg" not in found.tags


def test_the_shares_of_votes_are_drawn_and_listed() -> None:
    found, _ = read([row(1, "++++"), row(-1, "++-+"), row(1, "++-+")])
    assert found.tags.count("circle") == 2
    assert "0.67" in found.said
    assert "share 0.67: accuracy 0.500, n 2" in found.said


HOSTILE = (
    "</dd></details><script>alert(1)</script><img src=x onerror='alert(1)'> \" & <!-- \u202e\x00 \x1b[2J"
)


def test_hostile_text_stays_text() -> None:
    calm, _ = read([row(-1, "++++ calm", id="a", source="b")], file="c.jsonl")
    found, _ = read(
        [row(-1, "++++" + HOSTILE, id=HOSTILE, source=HOSTILE, user_request=HOSTILE, assistant=HOSTILE)],
        file=HOSTILE,
    )
    assert set(found.tags) == set(calm.tags)
    assert "script" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert found.said.count("<script>alert(1)</script>") >= 5
    assert not {"\u202e", "\x00", "\x1b"} & set(found.said)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    found, _ = read(read_rows(CORPUS), rules.judge)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert "default-src 'none'; style-src 'unsafe-inline'" in [value for _, value in found.attributes]


@pytest.mark.parametrize("rows", [[], [row(1, "+")], [row(None, "?", tier="undecidable")]])
def test_a_page_is_made_of_any_rows(rows: list[Row]) -> None:
    found, judged = read(rows)
    assert f"{len(judged)} rows" in found.said
    assert "None: every verdict given is the label." in found.said
