"""The report of an evaluation: one HTML page that needs nothing else and runs nothing."""

from collections.abc import Sequence
from importlib import resources
from typing import Final

from afterturn_extractor.evaluation.diagram import diagram
from afterturn_extractor.evaluation.disagreements import worst
from afterturn_extractor.evaluation.judged import Judged
from afterturn_extractor.evaluation.matrix import MARKS, Matrix
from afterturn_extractor.evaluation.reliability import Reliability, reliability, vote_share
from afterturn_extractor.evaluation.rows import TIERS
from afterturn_extractor.evaluation.score import (
    Scores,
    VerdictScore,
    by_source,
    coverage,
    score_source,
)
from afterturn_extractor.evaluation.text import shown
from afterturn_extractor.evidence import Verdict

_WORST: Final = 30
_FIELD_AT_MOST: Final = 1_200
# Even if a text got through the escaping, the page may load and run nothing.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(file: str, judge: str, scores: Scores, judged: Sequence[Judged]) -> str:
    """The whole page. All texts of rows are escaped: they are what strangers wrote."""
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    parts = (
        _opening(file, judge, scores, judged),
        _tiers(scores, judged),
        _sources(judged),
        _votes(reliability(judged)),
        _disagreements(judged),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Signals: {shown(file)}, judge {shown(judge)}</title><style>{style}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _opening(file: str, judge: str, scores: Scores, judged: Sequence[Judged]) -> str:
    figures = [
        ("core user, macro-F1", scores.core.user.macro_f1),
        ("core tool, macro-F1", scores.core.tool.macro_f1),
        ("core within source", scores.core.within_source_macro_f1),
        ("directive F1", scores.directive.f1),
        ("coverage", scores.coverage),
    ]
    if scores.undecidable is not None:
        figures.append(("undecidable, no verdict", scores.undecidable.no_verdict))
    cards = "".join(
        f'<div class="card"><b>{figure:.3f}</b><span>{name}</span></div>' for name, figure in figures
    )
    return (
        f'<h1>How well signals are read</h1><p class="soft">Judge <code>{shown(judge)}</code> on '
        f"<code>{shown(file)}</code>, {len(judged)} rows. In macro-F1 and accuracy no verdict counts as 0; "
        "coverage is the share of labelled rows with a verdict.</p>"
        f'<div class="cards">{cards}</div>'
    )


def _tiers(scores: Scores, judged: Sequence[Judged]) -> str:
    lines = "".join(
        _tier_line(f"{tier} {role}", part, [one for one in judged if _is_in(one, tier, role)])
        for tier, group in (("core", scores.core), ("hard", scores.hard))
        for role, part in (("user", group.user), ("tool", group.tool))
        if part.n
    )
    matrices = "".join(
        _matrix_card(tier, role, found)
        for tier in TIERS
        for role in ("user", "tool")
        if (found := [one for one in judged if _is_in(one, tier, role)])
    )
    return (
        "<h2>By tier</h2><p>Core rows show their label; hard rows have a true label of which the next "
        "state shows little, so confident verdicts there are overconfidence; of directive_only rows the "
        "hints count and the label does not.</p>"
        '<div class="card scroll"><table class="figures"><thead><tr><th></th><th>n</th><th>coverage</th>'
        "<th>accuracy</th><th>macro-F1</th><th>F1 &minus;1</th><th>F1 0</th><th>F1 +1</th></tr></thead>"
        f'<tbody>{lines}</tbody></table></div><p></p><div class="grid">{matrices}</div>'
    )


def _is_in(one: Judged, tier: str, role: str) -> bool:
    return one.row.tier == tier and one.row.next_role == role


def _tier_line(name: str, part: VerdictScore, found: Sequence[Judged]) -> str:
    figures = [coverage(found), part.accuracy, part.macro_f1, *(one.f1 for one in part.per_class.values())]
    cells = "".join(f"<td>{figure:.3f}</td>" for figure in figures)
    return f"<tr><th>{name}</th><td>{part.n}</td>{cells}</tr>"


def _sources(judged: Sequence[Judged]) -> str:
    cards = "".join(
        _matrix_card(source, tier, part)
        for source, found in by_source(judged).items()
        for tier in TIERS
        if (part := [one for one in found if one.row.tier == tier])
    )
    return (
        "<h2>By source</h2><p>Rows are labels, columns verdicts. Macro-F1 is over the labels that a source "
        f'has: a source with one label says little about a judge.</p><div class="grid">{cards}</div>'
    )


def _matrix_card(name: str, kind: str, judged: Sequence[Judged]) -> str:
    """One matrix with its figures; `kind` is the tier of a source, or the role of a tier."""
    if judged[0].row.tier == "undecidable":
        told = f"no verdict {1 - coverage(judged):.3f}"
    elif judged[0].row.tier == "directive_only":
        told = f"hints on {sum(bool(one.said.hints) for one in judged)}; labels are not scored"
    else:
        part = score_source(judged)
        told = (
            f"accuracy {part.accuracy:.3f} &middot; macro-F1 {part.macro_f1:.3f} &middot; "
            f"coverage {part.coverage:.3f}"
        )
    return (
        f'<section class="card"><div class="head"><h3>{shown(name)}</h3><span class="tier">{kind}</span>'
        f"</div>{_matrix(Matrix.of(judged), f'{name}, {kind}')}"
        f'<div class="caption">n {len(judged)} &middot; {told}</div></section>'
    )


def _matrix(matrix: Matrix, name: str) -> str:
    head = "".join(f'<th scope="col">{_mark(verdict, "none")}</th>' for verdict in MARKS)
    body = "".join(
        f'<tr><th scope="row">{_mark(label, "undecidable")}</th>{_cells(matrix, label)}</tr>'
        for label in matrix.labels
    )
    return (
        f'<table class="matrix" data-name="{shown(name)}" data-n="{matrix.n}"><thead><tr>'
        f"<th>label \\ verdict</th>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(matrix: Matrix, label: Verdict | None) -> str:
    counts = matrix.row(label)
    return "".join(
        f'<td class="{_colour(label, verdict, count)}" '
        f'style="--depth:{0.12 + 0.68 * count / sum(counts):.2f}">{count}</td>'
        for verdict, count in zip(MARKS, counts, strict=True)
    )


def _colour(label: Verdict | None, verdict: Verdict | None, count: int) -> str:
    if not count:
        return "zero"
    return "right" if verdict == label else "silent" if verdict is None else "wrong"


def _mark(verdict: Verdict | None, absent: str) -> str:
    return {-1: "&minus;1", 0: "0", 1: "+1", None: absent}[verdict]


def _votes(found: Reliability) -> str:
    if not found.levels:
        return (
            "<h2>Reliability of the vote share</h2><p>No verdict here was decided by votes: the judge casts "
            "none (the rules read each text once), so there is no share that could be held against "
            "accuracy.</p>"
        )
    lines = "".join(
        f"<tr><th>{level.share:.2f}</th><td>{level.n}</td><td>{level.accuracy:.3f}</td></tr>"
        for level in found.levels
    )
    return (
        "<h2>Reliability of the vote share</h2><p>How often a verdict is the label, by the share of votes "
        f"behind it, on the {found.n} labelled core and hard rows whose verdict votes decided. On the dashed "
        f"line a share is as good as its promise; the mean distance from it is {found.gap:.3f}.</p>"
        f'<div class="grid"><div class="card">{diagram(found)}</div><div class="card">'
        '<table class="figures votes"><thead><tr><th>share</th><th>n</th><th>accuracy</th></tr></thead>'
        f"<tbody>{lines}</tbody></table></div></div>"
    )


def _disagreements(judged: Sequence[Judged]) -> str:
    found = worst(judged, _WORST)
    if not found:
        return "<h2>Worst disagreements</h2><p>None: every verdict given is the label.</p>"
    return (
        "<h2>Worst disagreements</h2><p>Verdicts that are not the label, opposites first, then core before "
        f"hard rows and many agreeing votes before few; at most {_WORST}.</p>{''.join(map(_row, found))}"
    )


def _row(one: Judged) -> str:
    row, said = one.row, one.said
    share = vote_share(one)
    votes = "" if share is None else f", {share:.0%} of {len(said.votes)} votes"
    fields = [
        ("request", row.user_request or ""),
        ("reply", row.assistant),
        (f"next: {row.next_role}", row.next_state),
        ("rationale", said.rationale),
        *(("hint", hint.text) for hint in said.hints),
    ]
    told = "".join(
        f'<dt>{name}</dt><dd dir="auto">{shown(text, _FIELD_AT_MOST)}</dd>' for name, text in fields if text
    )
    return (
        f'<details><summary><code>{shown(row.id)}</code> <span class="tier">{shown(row.source)}</span> '
        f'<span class="tier">{row.tier}</span> label <span class="verdict right">'
        f'{_mark(row.label, "undecidable")}</span>, verdict <span class="verdict wrong">'
        f"{_mark(said.verdict, 'none')}</span>{votes}</summary><dl>{told}</dl></details>"
    )
