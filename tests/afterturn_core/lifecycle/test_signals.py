"""What a verdict and hints make of a turn, and of adapters that learned from an earlier one."""

import pytest
from sqlmodel import select
from tests.afterturn_core.lifecycle.steps import adapter_of, claim, judge, lease, publish, trained

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.errors import NotFound
from afterturn_core.lifecycle import Piece, SignalDraft
from afterturn_core.models import NextState, Turn


@pytest.mark.parametrize(
    ("verdict", "hints", "state"),
    [
        (1, (), "judged"),
        (-1, (("shorter", "rules"),), "judged"),
        (0, (), "abstained"),
        (None, (), "abstained"),
        (0, (("shorter", "rules"),), "judged"),
        (None, (("shorter", "rules"),), "judged"),
    ],
)
def test_what_a_verdict_and_hints_make_of_a_turn(stored, verdict, hints, state):
    turn_id = stored.observed("no")
    judge(stored, turn_id, verdict, hints=hints)
    assert stored.load(turn_id).state == state


def test_a_verdict_is_saved_once_and_evidence_that_came_late_is_judged_again(stored):
    turn_id = stored.observed("no")
    before = utc_now()
    stored.add_next_state(turn_id, "and wrong")
    assert judge(stored, turn_id, 1, before=before).revision == 1
    assert stored.load(turn_id).state == "observed"
    assert judge(stored, turn_id, -1).revision == 2
    assert stored.load(turn_id).state == "judged"
    assert judge(stored, turn_id, 1) is None
    with pytest.raises(NotFound):
        judge(stored, "turn_nothing", 1)


def test_feedback_after_training_brings_the_turn_back_and_marks_what_used_it(stored):
    (turn_id,), adapter = trained(stored)
    (_,), child = trained(stored)
    with stored.database.write() as session:
        lifecycle.add_feedback(session, turn_id, "f", Piece("feedback", "", "thumb", 1.0))
    assert stored.load(turn_id).state == "observed"
    judge(stored, turn_id, 1)
    assert adapter_of(stored, adapter.id).marks == ["stale"]
    assert adapter_of(stored, child.id).marks == ["stale"]
    assert claim(stored).turn_ids == [turn_id]


def test_feedback_that_agrees_marks_nothing(stored):
    (turn_id,), adapter = trained(stored)
    with stored.database.write() as session:
        lifecycle.add_feedback(session, turn_id, "f", Piece("feedback", "", "thumb", -1.0))
    judge(stored, turn_id, -1)
    assert adapter_of(stored, adapter.id).marks == []


def test_new_evidence_that_says_the_same_leaves_a_trained_turn_trained(stored):
    (turn_id,), adapter = trained(stored)
    stored.add_next_state(turn_id, "Really, much too long.")
    assert stored.load(turn_id).state == "observed"
    assert judge(stored, turn_id, -1).revision == 2
    assert stored.load(turn_id).state == "trained"
    assert adapter_of(stored, adapter.id).marks == []


def test_another_weight_of_the_same_verdict_leaves_a_trained_turn_trained(stored):
    (turn_id,), adapter = trained(stored)
    piece = Piece("outcome", "", "outcome", 0.0, 0.25)
    with stored.database.write() as session:
        lifecycle.add_feedback(session, turn_id, "f", piece)
        stamp = session.get_one(Turn, turn_id).observed_at
        draft = SignalDraft(-1, "outcome", weight=0.25)
        signal = lifecycle.save_signal(session, turn_id, draft, evidence_of=stamp)
    with stored.database.read() as session:
        (row,) = session.exec(select(NextState).where(NextState.source_id == "f")).all()
    assert (row.value, row.weight) == (0.0, 0.25)
    assert (signal.revision, signal.weight) == (2, 0.25)
    assert stored.load(turn_id).state == "trained"
    assert adapter_of(stored, adapter.id).marks == []


def test_a_hint_that_is_taken_back_marks_what_learned_from_it_and_its_descendants(stored):
    turn_id = stored.observed("Too long.")
    judge(stored, turn_id, -1, hints=(("Be brief.", "explicit"),))
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        first = lifecycle.burn_version(session, held, "hash")
    publish(stored, held, first.id)
    stored.add_next_state(turn_id, "Never mind.")
    judge(stored, turn_id, -1)
    assert adapter_of(stored, first.id).marks == ["stale"]
    # The mark also reaches an adapter that is made from the marked one later.
    _, second = trained(stored)
    assert adapter_of(stored, second.id).marks == ["stale"]


def test_an_administrators_last_word_replaces_the_one_before(stored):
    turn_id = stored.judged(-1)
    for verdict in (1, None):
        with stored.database.write() as session:
            lifecycle.override_verdict(session, turn_id, verdict)
    with stored.database.read() as session:
        words = session.exec(select(NextState).where(NextState.kind == lifecycle.ADMIN_WORD)).all()
    assert [(word.value, word.withdrawn) for word in words] == [(1.0, True), (None, False)]
    assert stored.load(turn_id).state == "abstained"
