"""How much of the rules' figures is lost on sources they were not tuned on?

    python -m bench.signals --dev FILE.jsonl [--stage NAME=REVISION …]

The sources of the labelled rows are split into two halves by the order of their names, in two ways. The
rules' thresholds are searched anew on one half and measured on the other, both ways. Rules written by hand
cannot be searched: of every `--stage` the rules of that revision are measured on both halves of the tool
sources, so what was written while looking at one half is seen on the other. `loss` is the tuned half's
macro-F1 minus the other's; `gain` is after minus before on the same rows, so it does not mix in that one half
is harder than the other.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from afterturn_extractor import rules
from afterturn_extractor.evaluation.judged import Judged, judge_rows
from afterturn_extractor.evaluation.rows import Row, read_rows
from afterturn_extractor.evaluation.score import by_source, score, score_source
from afterturn_extractor.evidence import Evidence, Judgement, NextStatePart, Verdict
from bench.machine import write_result
from bench.signals.halves import SPLITS, Split, halves, of
from bench.signals.stages import verdicts
from bench.signals.thresholds import macro_f1, search, using

DATA = Path(__file__).parents[2] / "tests" / "data"
NOW = "now"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write `bench/results/signals.json`."""
    parser = argparse.ArgumentParser(prog="bench.signals", description=__doc__)
    parser.add_argument("--dev", type=Path, required=True, help="labelled rows from several sources")
    parser.add_argument("--stage", action="append", default=[], metavar="NAME=REVISION")
    options = parser.parse_args(arguments)
    dev, own = read_rows(options.dev), read_rows(DATA / "next_states.jsonl")
    stages = dict(stage.split("=", 1) for stage in options.stage)
    path = write_result(
        "signals",
        {
            "dev": figures(judge_rows(dev, rules.judge)),
            "own_corpus": figures(judge_rows(own, rules.judge)),
            "thresholds": [
                tuned
                for role in ("user", "tool")
                for split in SPLITS
                for tuned in thresholds([row for row in dev if _is_core(row, role)], role, split)
            ],
            "tool_rules_by_hand": {
                name: stage(dev, own, revision) for name, revision in {**stages, NOW: None}.items()
            },
        },
    )
    print(f"wrote {path.name}")
    return 0


def _is_core(row: Row, role: str) -> bool:
    return row.tier == "core" and row.next_role == role


def figures(judged: Sequence[Judged]) -> dict[str, object]:
    """The figures of `afterturn eval signals --json`, and those of each source's core rows."""
    core = [one for one in judged if one.row.tier == "core"]
    return score(judged).model_dump(exclude_none=True) | {
        "by_source": {name: score_source(found).model_dump() for name, found in by_source(core).items()}
    }


def thresholds(rows: Sequence[Row], role: str, split: Split) -> list[dict[str, object]]:
    """Searched on one half, measured on the other, both ways."""
    told: list[dict[str, object]] = []
    for tuned_on, measured_on in halves(rows, split).both_ways():
        here, there = of(rows, tuned_on), of(rows, measured_on)
        before = macro_f1(here), macro_f1(there)
        found = search(here, role)
        with using(found.by_threshold):
            after = macro_f1(here), macro_f1(there)
        told.append(
            {
                "role": role,
                "split": split,
                "tuned_on": tuned_on,
                "measured_on": measured_on,
                "values": found.values,
                "tuned_half": {"n": len(here), "before": before[0], "after": after[0]},
                "other_half": {"n": len(there), "before": before[1], "after": after[1]},
                "loss": after[0] - after[1],
                "gain_on_tuned": after[0] - before[0],
                "gain_on_other": after[1] - before[1],
            }
        )
        print(json.dumps(told[-1]), file=sys.stderr)
    return told


def stage(dev: Sequence[Row], own: Sequence[Row], revision: str | None) -> dict[str, object]:
    """The tool rules of a revision (None: today's) on each half of the tool sources, on our own tool results
    and on what usual tools print."""
    tool = [row for row in dev if _is_core(row, "tool")]
    ours = [row for row in own if _is_core(row, "tool")]
    split = asdict(halves(tool, "alternate"))
    judged = dict(zip((row.id for row in tool), _judge(tool, revision), strict=True))
    return {
        "revision": revision,
        "core_tool": score(list(judged.values())).core.tool.macro_f1,
        "halves": {
            name: {
                "sources": sources,
                "macro_f1": score_source([judged[row.id] for row in of(tool, sources)]).macro_f1,
            }
            for name, sources in split.items()
        },
        "own_corpus_tool": score(_judge(ours, revision)).core.tool.macro_f1,
        "usual_outputs": outputs(revision),
    }


def outputs(revision: str | None) -> dict[str, dict[str, int]]:
    """How many texts of each set of `tool_outputs.jsonl` are read as they should."""
    lines = [
        json.loads(line) for line in (DATA / "tool_outputs.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    evidence = [Evidence(None, (), "", (), (NextStatePart("tool", line["text"]),)) for line in lines]
    right: Counter[int] = Counter()
    for line, verdict in zip(lines, _verdicts(evidence, revision), strict=True):
        right[line["set"]] += verdict == line["verdict"]
    total = Counter(line["set"] for line in lines)
    return {str(number): {"n": total[number], "right": right[number]} for number in sorted(total)}


def _judge(rows: Sequence[Row], revision: str | None) -> list[Judged]:
    said = _verdicts([row.evidence() for row in rows], revision)
    return [Judged(row, Judgement(verdict, "rules")) for row, verdict in zip(rows, said, strict=True)]


def _verdicts(evidence: Sequence[Evidence], revision: str | None) -> list[Verdict | None]:
    if revision is None:
        return [rules.judge(one).verdict for one in evidence]
    return verdicts(revision, evidence)


if __name__ == "__main__":
    sys.exit(main())
