from datetime import UTC, datetime, timedelta

import pytest
from tests.afterturn_dashboard.scripted_gateway import GATE, a_round, an_adapter

from afterturn import JSON, Adapter, AgentStats, JSONObject, Round
from afterturn.decoding import decode
from afterturn_dashboard.adapters import can_be_live, lineage, of_agent
from afterturn_dashboard.charts import Line, last_number, line_chart, numbers
from afterturn_dashboard.gate_report import findings, summary
from afterturn_dashboard.gateway import dependencies_in
from afterturn_dashboard.stats import Verdicts, verdicts
from afterturn_dashboard.words import ago, figure, lasting, moment_text, share, short

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (60, "1 min ago"), (7199, "1 h ago"), (200_000, "2 d ago")],
)
def test_ago(seconds: int, text: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), now=NOW) == text


def test_times_without_a_zone_are_utc_and_missing_ones_a_dash() -> None:
    assert ago(datetime(2026, 11, 30, 11, 0, 0), now=NOW) == "1 h ago"
    assert (ago(None, now=NOW), moment_text(None), lasting(None, None, now=NOW)) == ("–", "–", "–")
    assert moment_text(NOW) == "2026-11-30 12:00:00 UTC"


def test_lasting() -> None:
    start = NOW - timedelta(seconds=3 * 3600 + 125)
    assert lasting(start, None, now=NOW) == "3 h 2 min"
    assert lasting(start, start + timedelta(seconds=78), now=NOW) == "1 min 18 s"
    assert lasting(start, start + timedelta(seconds=9.6), now=NOW) == "10 s"


def test_figures() -> None:
    assert [figure(value) for value in (8, 0.0, 0.6331, 0.00012, 1234.5, -0.25, 1e9)] == [
        "8",
        "0",
        "0.633",
        "1.2e-04",
        "1.23e+03",
        "-0.25",
        "1e+09",
    ]
    assert (share(1, 3), share(0, 0)) == ("33 %", "–")
    assert short("round_01jdzk3v8q2m4n6p8r0s0003") == "…p8r0s0003"
    assert short("short") == "short"


def test_verdicts_are_summed_over_agents() -> None:
    agents = (
        AgentStats("a", signals={"+1": 3, "-1": 1, "none": 2}),
        AgentStats("b", signals={"+1": 1, "0": 5}),
        AgentStats("c"),
    )
    assert verdicts(agents) == Verdicts(good=4, neutral=5, bad=1, none=2)
    assert verdicts(agents).decided == 5


def test_dependencies_are_the_objects_of_readyz() -> None:
    body: JSON = {"ready": False, "database": {"ok": True}, "engine": {"ok": False, "detail": "refused"}}
    assert [(part.name, part.ready, part.detail) for part in dependencies_in(body)] == [
        ("database", True, ""),
        ("engine", False, "refused"),
    ]
    assert dependencies_in(["?"]) == ()


def test_a_gate_report_reads_as_sentences() -> None:
    found = {finding.title: finding for finding in findings(GATE)}
    assert [*found] == ["Real", "Learned", "Near", "Kept"]
    assert [finding.outcome for finding in found.values()] == ["passed", "open", "passed", "passed"]
    assert "0.83 nats, the engine shows 0.829 nats" in found["Real"].seen
    assert found["Learned"].seen.endswith("over 5 held-out turns; too few to decide (16 are needed).")
    assert found["Kept"].seen.startswith("Solved 65.0 % → 63.3 % of 120 probes (the base model 64.2 %)")
    assert ("by kind after · facts", "0.9") in found["Kept"].figures
    assert summary(GATE) == "Passed; not decided: learned."


def test_a_refusal_says_why_and_what_was_not_looked_at() -> None:
    report: JSON = {
        "passed": False,
        "reasons": ["the engine shows a change of 0.0000 nats where the trainer made 0.8000"],
        "real": {"outcome": "refused", "trainer": 0.8, "engine": 0.0, "tolerance": 0.08},
        "kept": None,
    }
    real, kept = findings(report)
    assert (real.outcome, kept.outcome) == ("refused", "open")
    assert "Not checked" in kept.seen
    assert summary(report).startswith("Refused: the engine shows a change")


@pytest.mark.parametrize(
    "report", [None, [], "x", {}, {"real": 3}, {"kept": {}}, {"new": {"a": [1, None, "x"]}}]
)
def test_a_report_of_any_shape_is_shown_as_far_as_it_goes(report: JSON) -> None:
    assert isinstance(summary(report), str)
    for finding in findings(report):
        assert finding.title


def test_metrics_become_series() -> None:
    assert numbers([1, 2.5, None, "x", True]) == (1.0, 2.5, None, None, None)
    assert (numbers(3), numbers("x"), numbers(None)) == ((3.0,), (), ())
    assert (last_number([1, None]), last_number([]), last_number({"a": 1})) == (1.0, None, None)


def test_chart_text_cannot_be_markup() -> None:
    options = line_chart(["<b>"], [Line("<i>", [1.0]), Line("right", [2.0], right=True)])
    assert isinstance(options["tooltip"], dict)
    assert options["tooltip"]["renderMode"] == "richText"
    series = options["series"]
    assert isinstance(series, list)
    assert [each["yAxisIndex"] for each in series if isinstance(each, dict)] == [0, 1]


def adapters() -> list[Adapter]:
    shown: list[JSONObject] = [
        an_adapter(4, 2, live=True),
        an_adapter(3, 2, state="rejected"),
        an_adapter(2, 1),
        {**an_adapter(1, None), "marks": ["tainted"]},
        an_adapter(1, None, agent="other"),
    ]
    return [decode(Adapter, each) for each in shown]


def test_lineage_is_the_live_ones_descent() -> None:
    own = of_agent("default", adapters())
    assert [each.version for each in own] == [4, 3, 2, 1]
    assert lineage(own) == {4, 2, 1}
    assert lineage(of_agent("other", adapters())) == frozenset()


def test_only_what_the_gateway_would_take_is_offered() -> None:
    assert [each.version for each in of_agent("default", adapters()) if can_be_live(each)] == [2]


def test_rounds_of_the_scripted_gateway_are_rounds() -> None:
    assert decode(Round, a_round(1, "training")).ended is False
    assert decode(Round, a_round(1, "rejected")).ended is True
