"""The probe set is fixed, and each checker tells a right reply from a wrong one."""

from collections import Counter

import pytest

from afterturn_trainer.probes import Probe, ProbeReply, load_probes, loops, report, score


def probe(check: str, *want: str) -> Probe:
    return Probe("p", "kind", "prompt", check, want)  # type: ignore[arg-type]


def test_the_set_is_large_enough_and_asks_nothing_twice() -> None:
    probes = load_probes()
    assert len(probes) >= 100
    assert len({probe.prompt for probe in probes}) == len(probes)
    assert max(Counter(probe.kind for probe in probes).values()) < len(probes) / 3


@pytest.mark.parametrize(
    ("check", "want", "right", "wrong"),
    [
        ("number", ["7"], "3 + 4 = 7.", "3 + 4 = 77"),
        ("number", ["1000"], "It is 1,000, I think", "10,000"),
        ("number", ["4"], "The answer is 4", "The answer is 14"),
        ("word", ["Rome"], "It is ROME!", "Romeo"),
        ("word", ["south america"], "In South America.", "South of America"),
        ("starts", ["no"], "**No**, never", "North"),
        ("exact", ["apple"], '"Apple".', "an apple"),
        ("case", ["DOG"], "the word: DOG", "Dog"),
        ("only", ["food", "tool"], "A food.", "A food and a tool"),
        ("json", ["name", "Ann"], '```json\n{"name": "Ann"}\n```', '{"name": "Bob"}'),
        ("json", ["name", "Ann"], 'Here: {"name": "Ann", "age": 3}', '{"name": "Ann"'),
    ],
)
def test_checkers(check: str, want: list[str], right: str, wrong: str) -> None:
    assert score(probe(check, *want), right)
    assert not score(probe(check, *want), wrong)
    assert not score(probe(check, *want), "")


def test_going_in_circles_is_seen() -> None:
    assert loops("Boil an egg:\n\nBoil an egg:\n\nBoil an egg:")
    assert loops("a b c a b c a b c")
    assert not loops("A spider has eight legs, an ant has six, a dog has four.")


def test_a_report_counts_shares() -> None:
    probes = (probe("word", "yes"), Probe("q", "other", "prompt", "number", ("2",)))
    result = report(probes, [ProbeReply("yes", True), ProbeReply("", False)])
    assert (result.solved, result.empty, result.unfinished, result.looping) == (0.5, 0.5, 0.5, 0.0)
    assert result.solved_ids == {"p"}
    assert result.by_kind == {"kind": 1.0, "other": 0.0}


def test_replies_that_do_not_align_raise() -> None:
    with pytest.raises(ValueError, match="align"):
        report(load_probes(), [])
