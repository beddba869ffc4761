"""One round: its course, its gate report, what it used."""

import json
from datetime import UTC, datetime

from nicegui import ui

from afterturn import JSON, Round
from afterturn_dashboard.charts import Line, line_chart, numbers
from afterturn_dashboard.gate_report import Finding, Outcome, figures, findings, summary
from afterturn_dashboard.live import Live
from afterturn_dashboard.parts import ROUND_TONES, Tone, card, empty, facts, pill
from afterturn_dashboard.rounds import cancel
from afterturn_dashboard.words import lasting, moment_text

METRIC_NAMES = {
    "kl": "KL to base, nats a token",
    "reward_mean": "mean verdict",
    "engine_gap": "engine gap, nats",
}
COURSE = {
    "loss": "loss",
    "verdict": "verdict term",
    "hint": "hint term",
    "kl": "KL",
    "grad_norm": "gradient norm",
}
OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    "passed": ("passed", "good"),
    "refused": ("refused", "bad"),
    "open": ("not decided", "soft"),
}


def draw_round(live: Live[Round], each: Round) -> None:
    """The page's content."""
    now = datetime.now(UTC)
    with ui.element("div").classes("row tools"):
        ui.link("← All rounds", "/rounds")
        with ui.element("div").classes("row end"):
            if not each.ended:
                ui.button("Cancel this round", on_click=lambda: cancel(live, each)).props("outline no-caps")
    if each.error:
        with ui.element("div").classes("banner bad"):
            ui.icon("error_outline")
            ui.label(each.error)
    with card():
        with ui.element("div").classes("card-title"):
            ui.label(each.agent or "").classes("h2")
            pill(each.state, ROUND_TONES.get(each.state, "soft"))
        if each.progress is not None and not each.ended:
            ui.linear_progress(max(0.0, min(1.0, each.progress)), show_value=False).props("rounded")
        facts(
            ("Round", each.id),
            ("Adapter", each.adapter or ("none" if each.ended else "none yet")),
            ("Objective", each.objective or "–"),
            ("Turns", str(len(each.turn_ids))),
            ("Started", moment_text(each.started_at)),
            ("Took", lasting(each.started_at, each.finished_at, now=now)),
            *_scalar_metrics(each.metrics),
        )
    _course(each)
    _gate(each)
    with ui.element("div").classes("columns"):
        with card("Settings"), ui.element("pre"):
            ui.label(json.dumps(each.settings, indent=2, ensure_ascii=False))
        with card("Turns", f"{len(each.turn_ids)} used"), ui.element("pre"):
            ui.label("\n".join(each.turn_ids) or "none")


def _scalar_metrics(metrics: JSON) -> tuple[tuple[str, str], ...]:
    """Metrics that are one figure, or a few named ones."""
    if not isinstance(metrics, dict):
        return ()
    single = {name: value for name, value in metrics.items() if not isinstance(value, list | str)}
    return figures({METRIC_NAMES.get(name, name): value for name, value in single.items()})


def _course(each: Round) -> None:
    metrics = each.metrics if isinstance(each.metrics, dict) else {}
    lines = [
        Line(label, numbers(metrics.get(name)), right=name in {"grad_norm", "kl"})
        for name, label in COURSE.items()
        if len(numbers(metrics.get(name))) > 1
    ]
    if not lines:
        return
    with card("Course of training", "by update"):
        steps = [str(step + 1) for step in range(max(len(line.values) for line in lines))]
        ui.echart(line_chart(steps, lines, x_name="update")).classes("chart")


def _gate(each: Round) -> None:
    with card("Gate report", summary(each.gate) if each.gate is not None else ""):
        found = findings(each.gate)
        if not found:
            empty(
                "The gate has not spoken",
                "It reports once training is done: whether the adapter is real, learned, kept what it could, "
                "and stayed bounded. Until then the live adapter keeps serving.",
            )
        for finding in found:
            _finding(finding)


def _finding(finding: Finding) -> None:
    with ui.element("div").classes("finding"):
        with ui.element("div").classes("row"):
            ui.label(finding.title).classes("h3")
            word, tone = OUTCOMES[finding.outcome]
            if finding.asks or finding.outcome != "open":
                pill(word, tone)
        if finding.asks:
            ui.label(finding.asks).classes("note")
        if finding.seen:
            ui.label(finding.seen)
        if finding.figures:
            facts(*finding.figures)
