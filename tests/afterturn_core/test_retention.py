"""Old turns go, and nothing that others need goes with them."""

from datetime import timedelta

import pytest
from pydantic import ValidationError
from sqlalchemy import func, text, update
from sqlmodel import col, select
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.history import BLOCK, load_history, load_prompt, store_prompt
from afterturn_core.ids import id_at
from afterturn_core.lifecycle import RoundPlan
from afterturn_core.models import (
    Agent,
    Content,
    Conversation,
    HistoryNode,
    NextState,
    Round,
    RoundTurn,
    Signal,
    Training,
    Turn,
)
from afterturn_core.retention import remove_old_turns
from afterturn_core.settings import Settings

DAYS = 30


def aged(stored: StoredTurns, turn_id: str, days: float = DAYS + 1) -> str:
    """Make a turn, and its session, as old as that; returns its new id."""
    moment = utc_now() - timedelta(days=days)
    old_id = id_at("turn", moment)
    with stored.database.write() as session:
        connection = session.connection()
        if stored.database.is_postgresql:
            connection.execute(text("SET session_replication_role = replica"))
        else:
            connection.execute(text("PRAGMA defer_foreign_keys = ON"))
        turn = session.get_one(Turn, turn_id)
        session.execute(
            update(Conversation).where(col(Conversation.id) == turn.session_id).values(last_seen_at=moment)
        )
        for table, column in (
            (NextState, "turn_id"),
            (Signal, "turn_id"),
            (RoundTurn, "turn_id"),
            (Training, "turn_id"),
            (Turn, "prompt_base_id"),
            (Turn, "parent_id"),
        ):
            session.execute(update(table).where(getattr(table, column) == turn_id).values({column: old_id}))
        session.execute(update(Turn).where(col(Turn.id) == turn_id).values(id=old_id, created_at=moment))
        if stored.database.is_postgresql:
            connection.execute(text("SET session_replication_role = origin"))
    return old_id


def count(stored: StoredTurns, table: type) -> int:
    with stored.database.read() as session:
        return session.exec(select(func.count()).select_from(table)).one()


def test_old_turns_go_with_everything_that_only_they_had(stored: StoredTurns) -> None:
    old = [aged(stored, stored.turn(request=f"old {number}", reply=f"reply {number}")) for number in range(5)]
    judged = aged(stored, stored.judged())
    young = stored.turn(request="new", reply="a new reply")
    assert sorted(remove_old_turns(stored.database, DAYS, batch=2)) == sorted([*old, judged])
    assert count(stored, Turn) == count(stored, Conversation) == count(stored, HistoryNode) == 1
    assert count(stored, Content) == 2
    assert count(stored, Signal) == count(stored, NextState) == 0
    with stored.database.read() as session:
        turn = session.get_one(Turn, young)
        assert load_history(session, turn.history_digest) == [{"role": "user", "content": "new"}]
    assert remove_old_turns(stored.database, DAYS) == []


def test_nothing_is_old_unless_somebody_says_so(stored: StoredTurns) -> None:
    aged(stored, stored.turn(), days=4000)
    assert remove_old_turns(stored.database, 0) == []
    assert count(stored, Turn) == 1


def test_one_sweep_removes_no_more_than_a_few_batches(stored: StoredTurns) -> None:
    for _ in range(7):
        aged(stored, stored.turn())
    assert len(remove_old_turns(stored.database, DAYS, batch=2, batches=2)) == 4
    assert len(remove_old_turns(stored.database, DAYS, batch=2, batches=2)) == 3


def test_a_conversation_that_goes_on_keeps_its_new_turns_whole(stored: StoredTurns) -> None:
    session_id = stored.session()
    first = stored.turn(session_id=session_id)
    prompt = list(range(3 * BLOCK))
    with stored.database.write() as session:
        turn = session.get_one(Turn, first)
        store_prompt(session, turn, prompt, None)
    second = stored.turn(session_id=session_id, reply="another")
    with stored.database.write() as session:
        turn = session.get_one(Turn, second)
        store_prompt(session, turn, [*prompt, 7, 8, 9, 10, 11], session.get_one(Turn, first))
        assert turn.prompt_base_id == first
        turn.parent_id = first
    first = aged(stored, first)
    with stored.database.write() as session:
        session.execute(update(Conversation).values(last_seen_at=utc_now()))
    assert remove_old_turns(stored.database, DAYS) == [first]
    with stored.database.read() as session:
        turn = session.get_one(Turn, second)
        assert turn.parent_id is None
        assert load_prompt(session, turn) == [*prompt, 7, 8, 9, 10, 11]
    assert count(stored, Conversation) == 1


def test_what_a_round_learns_from_stays_until_it_has_ended(stored: StoredTurns) -> None:
    turn_ids = [aged(stored, stored.judged()) for _ in range(3)]
    with stored.database.write() as session:
        session.execute(update(Turn).values(held_out=False))
        agent = session.get_one(Agent, stored.agent_id)
        claimed = lifecycle.claim_round(session, agent, RoundPlan(objective="hybrid", max_turns=64))
    assert remove_old_turns(stored.database, DAYS) == []
    with stored.database.write() as session:
        lifecycle.request_cancel(session, claimed.id)
    assert sorted(remove_old_turns(stored.database, DAYS)) == sorted(turn_ids)
    with stored.database.read() as session:
        kept = session.get_one(Round, claimed.id)
        assert sorted(kept.turn_ids) == sorted(turn_ids)  # what it was about can still be read


def test_messages_that_a_newer_turn_shares_stay(stored: StoredTurns) -> None:
    old = aged(stored, stored.turn(request="the same", reply="the same reply"))
    young = stored.turn(request="the same", reply="the same reply")
    assert remove_old_turns(stored.database, DAYS) == [old]
    with stored.database.read() as session:
        turn = session.get_one(Turn, young)
        assert load_history(session, turn.history_digest) == [{"role": "user", "content": "the same"}]


@pytest.mark.parametrize("days", [-1, float("nan")])
def test_an_age_below_zero_is_refused(days: float) -> None:
    with pytest.raises(ValidationError):
        Settings(retention_days=days)
