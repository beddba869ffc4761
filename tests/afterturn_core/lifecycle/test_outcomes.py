"""How rounds end, and what becomes of their turns."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlmodel import select
from tests.afterturn_core.lifecycle.steps import (
    adapter_of,
    claim,
    lease,
    publish,
    round_of,
    trained,
)

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.errors import Conflict, LostLease, NotFound
from afterturn_core.models import Agent, Round, Training, Turn


def test_publishing_makes_the_adapter_live_and_the_turns_trained(stored):
    turn_ids, adapter = trained(stored, 2)
    assert stored.agent().live_adapter_id == adapter.id
    assert adapter_of(stored, adapter.id).state == "published"
    assert [stored.load(turn_id).state for turn_id in turn_ids] == ["trained", "trained"]
    assert all(stored.load(turn_id).round_id == adapter.round_id for turn_id in turn_ids)
    with stored.database.read() as session:
        assert len(session.exec(select(Training)).all()) == 2
    with pytest.raises(Conflict):
        claim(stored)


def test_a_rollback_during_the_round_wins_over_its_end(stored):
    _, first = trained(stored)
    turn_id = stored.judged()
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        candidate = lifecycle.burn_version(session, held, "hash")
        lifecycle.rollback(session, session.get_one(Agent, stored.agent_id), None)
    with pytest.raises(Conflict) as refused:
        publish(stored, held, candidate.id)
    assert refused.value.code == "live_changed"
    assert stored.agent().live_adapter_id is None
    assert round_of(stored, row.id).state == "training"
    with stored.database.write() as session:
        lifecycle.reject(
            session, held, "live changed", adapter_id=candidate.id, gate={}, metrics={}, backoff_s=0
        )
    assert stored.load(turn_id).state == "judged"
    assert first.id != candidate.id


def test_a_failed_or_cancelled_round_gives_its_turns_back(stored):
    turn_id = stored.judged()
    for end in (lambda session, held: lifecycle.fail(session, held, "broken"), lifecycle.cancel):
        row = claim(stored)
        held = lease(stored, row.id)
        with stored.database.write() as session:
            end(session, held)
        assert stored.load(turn_id).state == "judged"
        assert stored.load(turn_id).round_id is None
        with stored.database.write() as session, pytest.raises(LostLease):
            end(session, held)
    assert round_of(stored, row.id).state == "cancelled"


def test_rejected_turns_rest_come_back_once_and_are_then_excluded(stored):
    turn_id = stored.judged()
    for attempt, backoff_s, state in ((1, 600, "judged"), (2, 0, "excluded")):
        row = claim(stored)
        with stored.database.write() as session:
            held = lifecycle.acquire_lease(session, row.id, "w", 60)
            lifecycle.reject(
                session, held, "worse", adapter_id=None, gate={}, metrics={}, backoff_s=backoff_s
            )
        assert stored.load(turn_id).state == state
        assert stored.load(turn_id).times_rejected == attempt
        with pytest.raises(Conflict):
            claim(stored)
        with stored.database.write() as session:
            session.get_one(Turn, turn_id).claimable_at = None
    assert stored.load(turn_id).excluded_reason == "rejected twice"


def test_cancelling_asks_a_worker_and_ends_what_nobody_works_on(stored):
    stored.judged()
    row = claim(stored)
    with stored.database.write() as session:
        assert lifecycle.request_cancel(session, row.id).state == "cancelled"
        with pytest.raises(Conflict):
            lifecycle.request_cancel(session, row.id)
        with pytest.raises(NotFound):
            lifecycle.request_cancel(session, "round_nothing")
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        assert lifecycle.request_cancel(session, row.id).state == "training"
        assert lifecycle.heartbeat(session, held) is True


def test_a_round_whose_workers_keep_dying_is_given_up(stored):
    turn_id = stored.judged()
    row = claim(stored)
    for _ in range(lifecycle.MAX_ATTEMPTS):
        with stored.database.write() as session:
            assert lifecycle.give_up_abandoned(session) == []
        lease(stored, row.id)
        with stored.database.write() as session:
            session.get_one(Round, row.id).lease_expires_at = utc_now() - timedelta(seconds=1)
    with stored.database.write() as session:
        assert lifecycle.give_up_abandoned(session) == [row.id]
        assert lifecycle.give_up_abandoned(session) == []
    assert round_of(stored, row.id).state == "failed"
    assert stored.load(turn_id).state == "judged"


def test_evidence_during_a_round_is_judged_when_the_round_is_over(stored):
    turn_id = stored.judged()
    row = claim(stored)
    stored.add_next_state(turn_id, "thanks, perfect")
    assert stored.load(turn_id).state == "claimed"
    held = lease(stored, row.id)
    with stored.database.write() as session:
        lifecycle.fail(session, held, "x")
    assert stored.load(turn_id).state == "observed"


def test_an_agent_that_was_frozen_meanwhile_keeps_what_it_serves(stored):
    stored.judged()
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        adapter = lifecycle.burn_version(session, held, "hash")
        session.get_one(Agent, stored.agent_id).frozen = True
    with pytest.raises(Conflict):
        publish(stored, held, adapter.id)
    assert stored.agent().live_adapter_id is None


def test_a_round_that_is_being_cancelled_while_it_ends_is_not_published(stored):
    if not stored.database.is_postgresql:
        pytest.skip("SQLite has one writer: nothing happens between a look and a change")
    stored.judged()
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        adapter = lifecycle.burn_version(session, held, "hash")
    blocked = text(
        "SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database OR database IS NULL"
        " WHERE NOT granted AND datname = current_database()"
    )
    with ThreadPoolExecutor(1) as pool:
        with stored.database.write() as session:
            lifecycle.request_cancel(session, row.id)
            ending = pool.submit(publish, stored, held, adapter.id)
            deadline = time.monotonic() + 60
            while not session.connection().execute(blocked).first() and time.monotonic() < deadline:
                time.sleep(0.02)
        with pytest.raises(Conflict, match="cancelled"):
            ending.result(60)
    assert stored.agent().live_adapter_id is None
