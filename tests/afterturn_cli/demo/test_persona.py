"""The scripted user: one hidden preference, many words, understood by the judge that needs no model."""

import random
import re

import pytest

from afterturn_cli.demo.persona import PERSONAS, SHORT, UNRELATED, Persona, Reply, on_topic, repeats
from afterturn_cli.demo.prompts import HELD_OUT, TRAINING, Question
from afterturn_extractor.evidence import Evidence, Judgement, NextStatePart
from afterturn_extractor.rules import judge

VOLCANO = Question("What is a volcano?", ("volcano",))
RAMBLING = Reply("A volcano is a mountain that " + "and ".join(f"erupts{i} " for i in range(40)), "length")
GOOD = Reply("A volcano is a mountain from which melted rock escapes.", "stop")


@pytest.mark.parametrize(
    ("text", "finish_reason", "problem"),
    [
        (GOOD.text, "stop", None),
        (GOOD.text, "length", "long"),
        ("A volcano is " + " ".join(f"word{i}" for i in range(27)), "stop", None),  # 30 words
        ("A volcano is " + " ".join(f"word{i}" for i in range(28)), "stop", "long"),  # 31
        ("A volcano is a mountain", "stop", None),  # 5
        ("A volcano, a mountain", "stop", "bare"),  # 4
        ("", "stop", "bare"),
        ("It is a mountain that spits fire.", "stop", "astray"),
        ("A volcano is hot. A volcano is hot.", "stop", "repeats"),
        ("Volcanoes are mountains that spit fire.", "stop", None),
    ],
)
def test_what_pleases_the_default_user(text: str, finish_reason: str, problem: str | None) -> None:
    assert SHORT.problem(VOLCANO, Reply(text, finish_reason)) == problem


def test_repetition_is_a_run_of_four_words_or_a_sentence() -> None:
    assert repeats("it is a big hill, yes it is a big one")
    assert repeats("Hot. Very. Hot.")
    assert not repeats("A cat is an animal and a dog is an animal too.")


def test_on_topic_wants_the_start_of_a_word() -> None:
    assert on_topic(Question("?", ("plumb",)), "Plumbers mend pipes")
    assert not on_topic(Question("?", ("ant",)), "Important plants")


def test_complaints_are_many_and_never_give_the_rule_away() -> None:
    wordings = [text for texts in SHORT.complaints.values() for text in texts]
    assert len(SHORT.complaints["long"]) >= 40
    assert len(set(wordings)) == len(wordings)
    assert not [text for text in wordings if re.search(r"\d|\bfive\b|\bthirty\b", text)]


def test_the_same_chance_gives_the_same_words() -> None:
    first = [SHORT.react(VOLCANO, RAMBLING, random.Random(3)).text for _ in range(2)]
    assert first[0] == first[1]
    assert len({SHORT.react(VOLCANO, RAMBLING, random.Random(seed)).text for seed in range(50)}) > 25


def judged(persona: Persona, reply: Reply, text: str) -> Judgement:
    told = (NextStatePart("user", text),)
    return judge(Evidence(VOLCANO.text, (), reply.text, (), told))


@pytest.mark.parametrize("persona", PERSONAS.values(), ids=PERSONAS)
def test_the_rules_judge_understands_every_complaint(persona: Persona) -> None:
    for texts in persona.complaints.values():
        for text in texts:
            for opener in persona.openers:
                said = f"{opener} {text.format(topic='volcano')}".strip()
                verdict = judged(persona, RAMBLING, said)
                assert (verdict.verdict, len(verdict.hints)) == (-1, 1), said


def test_the_rules_judge_understands_praise() -> None:
    for text in SHORT.praise:
        assert judged(SHORT, GOOD, text).verdict == 1, text
    assert SHORT.react(VOLCANO, GOOD, random.Random(0)).hint is None


def test_the_placebo_s_user_never_speaks_of_length() -> None:
    for text in UNRELATED.complaints["wish"]:
        assert not re.search(r"short|brief|long|sentence|concise|less|few|point", text), text


def test_held_out_questions_share_no_topic_with_training() -> None:
    assert len(TRAINING) >= 60
    assert len(HELD_OUT) >= 32
    trained = {name for question in TRAINING for name in question.names}
    assert not trained & {name for question in HELD_OUT for name in question.names}
    assert len({question.text for question in (*TRAINING, *HELD_OUT)}) == len(TRAINING) + len(HELD_OUT)
    assert all(on_topic(question, question.text) for question in (*TRAINING, *HELD_OUT))
