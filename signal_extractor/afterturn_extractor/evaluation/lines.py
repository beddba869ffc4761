"""The figures as lines of text."""

from collections.abc import Sequence

from afterturn_extractor.evaluation.judged import Judged
from afterturn_extractor.evaluation.score import Scores, by_source, score_source


def lines(scores: Scores, judged: Sequence[Judged]) -> str:
    """Figures by tier and role, then by source."""
    told = [
        f"{tier} {role:4}  n {part.n:4d}  accuracy {part.accuracy:.3f}  macro-F1 {part.macro_f1:.3f}  "
        + "  ".join(f"{name} {one.f1:.3f}" for name, one in part.per_class.items())
        for tier, group in (("core", scores.core), ("hard", scores.hard))
        for role, part in (("user", group.user), ("tool", group.tool))
    ]
    hint = scores.directive
    if (unclear := scores.undecidable) is not None:
        told.append(f"undecidable n {unclear.n}  no verdict {unclear.no_verdict:.3f}")
    told += [
        f"within source macro-F1 {scores.core.within_source_macro_f1:.3f}",
        f"directive precision {hint.precision:.3f} recall {hint.recall:.3f} F1 {hint.f1:.3f}",
        f"coverage {scores.coverage:.3f}",
        "",
        *_sources(judged),
    ]
    return "\n".join(told) + "\n"


def _sources(judged: Sequence[Judged]) -> list[str]:
    """Macro-F1 here is over the classes that a source has."""
    told = []
    for tier in ("core", "hard"):
        found = by_source([one for one in judged if one.row.tier == tier])
        wide = max((len(source) for source in found), default=0)
        for source, rows in found.items():
            part = score_source(rows)
            told.append(
                f"{tier} {_plain(source):{wide}}  n {part.n:4d}  accuracy {part.accuracy:.3f}  "
                f"macro-F1 {part.macro_f1:.3f}  coverage {part.coverage:.3f}"
            )
    return told


def _plain(text: str) -> str:
    """Without what moves a terminal's cursor or changes its colours."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
