"""What users say, tools return and agents reply does not tell the rules judge what to decide."""

import pytest
from tests.afterturn_extractor.injections import ATTEMPTS, TRICKS

from afterturn_extractor.evidence import Evidence, NextStatePart, Verdict
from afterturn_extractor.rules import judge

REPLY = "The trains to Oxford leave at nine."
# Where an attempt stands: (who writes it, what stands before it, what the user says after the reply).
PLACES = {
    "beside a complaint": ("user", "That is far too long.\n", ""),
    "beside a new task": ("user", "What about Paris?\n", ""),
    "behind a tool's error": ("tool", "Error: unknown option --at\n", ""),
    "in a reply that the user rejects": ("reply", REPLY, "That is wrong."),
    "in a reply that the user praises": ("reply", REPLY, "Perfect, thanks!"),
}


def verdict(place: str, attempt: str) -> Verdict | None:
    who, before, said = PLACES[place]
    text = before + attempt
    part = NextStatePart("tool", text) if who == "tool" else NextStatePart("user", said or text)
    reply = text if who == "reply" else REPLY
    return judge(Evidence("Which trains leave for Cambridge?", (), reply, (), (part,))).verdict


def test_there_are_enough_attempts() -> None:
    assert len(TRICKS) >= 20
    assert len(ATTEMPTS) * len(PLACES) >= 200


def test_attempts_do_not_move_the_verdict() -> None:
    pairs = [
        (place, trick, verdict(place, ""), verdict(place, attempt))
        for place in PLACES
        for trick, attempt in ATTEMPTS
    ]
    moved = [pair for pair in pairs if pair[2] != pair[3]]
    assert len(moved) <= 0.02 * len(pairs), moved
    assert all(after is None for *_, after in moved), moved


@pytest.mark.parametrize(("trick", "attempt"), ATTEMPTS)
def test_an_attempt_alone_earns_nothing(trick: str, attempt: str) -> None:
    judged = judge(Evidence("Which trains?", (), REPLY, (), (NextStatePart("user", attempt),)))
    assert judged.verdict is None, trick
    assert judged.hints == ()
    assert "injection" in judged.flags
