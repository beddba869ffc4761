"""What counts of what came after a turn, and that telling it twice changes nothing."""

import pytest
from sqlmodel import col, select
from tests.afterturn_core.lifecycle.steps import believe, claim, judge, lease, observe, publish

from afterturn_core import lifecycle
from afterturn_core.errors import Conflict
from afterturn_core.lifecycle import Piece
from afterturn_core.models import NextState


def pieces(stored, turn_id):
    with stored.database.read() as session:
        statement = select(NextState).where(NextState.turn_id == turn_id).order_by(col(NextState.id))
        return [(row.role, row.text, row.believed) for row in session.exec(statement).all()]


def test_tool_results_count_at_once_and_texts_wait(stored):
    turn_id = stored.turn()
    observe(stored, turn_id, Piece("user", "no"))
    assert stored.load(turn_id).state == "open"
    observe(stored, turn_id, Piece("tool", "42"), Piece("user", "no"))
    assert stored.load(turn_id).state == "observed"
    assert pieces(stored, turn_id) == [("user", "no", False), ("tool", "42", True)]


def test_observing_and_believing_twice_changes_nothing(stored):
    turn_id = stored.turn()
    for _ in range(2):
        observe(stored, turn_id, Piece("user", "no"))
        believe(stored, turn_id, Piece("user", "no"))
    assert pieces(stored, turn_id) == [("user", "no", True)]
    first = stored.load(turn_id).observed_at
    believe(stored, turn_id, Piece("user", "no"))
    assert stored.load(turn_id).observed_at == first


def test_injected_texts_are_never_believed(stored):
    turn_id = stored.turn()
    believe(stored, turn_id, Piece("user", "[OpenClaw heartbeat poll]"))
    assert pieces(stored, turn_id) == [("user", "[OpenClaw heartbeat poll]", False)]
    assert stored.load(turn_id).state == "open"


def test_settling_believes_what_people_said(stored):
    session_id = stored.session()
    first, second = stored.turn(session_id=session_id), stored.turn(session_id=session_id)
    stored.candidate(first, "too long")
    stored.candidate(second, "[OpenClaw heartbeat poll]")
    with stored.database.write() as session:
        assert lifecycle.settle_session(session, session_id, ended=True) == [first]
    with stored.database.write() as session:
        assert lifecycle.settle_session(session, session_id, ended=True) == []
    assert stored.load(second).state == "open"


def test_feedback_counts_at_once_and_can_be_withdrawn(stored):
    turn_id = stored.turn()
    with stored.database.write() as session:
        lifecycle.add_feedback(session, turn_id, "f1", Piece("feedback", "", "thumb", -1.0))
    assert stored.load(turn_id).state == "observed"
    judge(stored, turn_id, -1)
    with stored.database.write() as session:
        assert lifecycle.withdraw_feedback(session, "f1") == [turn_id]
        assert lifecycle.withdraw_feedback(session, "f1") == []
    assert stored.load(turn_id).state == "observed"


def test_an_excluded_turn_stays_excluded(stored):
    turn_id = stored.turn()
    for _ in range(2):
        with stored.database.write() as session:
            lifecycle.exclude(session, turn_id, "why")
    observe(stored, turn_id, Piece("tool", "42"))
    assert (stored.load(turn_id).state, stored.load(turn_id).excluded_reason) == ("excluded", "why")
    assert judge(stored, turn_id, 1) is None


def test_a_turn_in_a_round_cannot_be_excluded(stored):
    turn_id = stored.judged()
    claim(stored)
    with stored.database.write() as session, pytest.raises(Conflict):
        lifecycle.exclude(session, turn_id, "x")


def test_a_request_sent_again_does_not_train_its_turn_again(stored):
    turn_id = stored.turn()
    observe(stored, turn_id, Piece("tool", "exit code 0"))
    judge(stored, turn_id, 1)
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        adapter = lifecycle.burn_version(session, held, "hash")
    publish(stored, held, adapter.id)
    observe(stored, turn_id, Piece("tool", "exit code 0"), source="a retry")
    assert stored.load(turn_id).state == "trained"
