"""One worker at a time, and none that lost its lease."""

from datetime import timedelta

import pytest
from tests.afterturn_core.lifecycle.steps import claim, lease, publish, round_of

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.errors import LostLease
from afterturn_core.lifecycle import Lease
from afterturn_core.models import Round


def test_a_lease_has_one_holder_and_a_fence_against_the_one_before(stored):
    stored.judged()
    row = claim(stored)
    first = lease(stored, row.id)
    with pytest.raises(LostLease):
        lease(stored, row.id)
    with stored.database.write() as session:
        session.get_one(Round, row.id).lease_expires_at = utc_now() - timedelta(seconds=1)
    second = lease(stored, row.id)
    assert second.fence == first.fence + 1
    with stored.database.write() as session, pytest.raises(LostLease):
        lifecycle.heartbeat(session, first)
    for end in (lifecycle.cancel, lambda session, held: lifecycle.fail(session, held, "x")):
        with stored.database.write() as session, pytest.raises(LostLease):
            end(session, first)
    with stored.database.write() as session:
        assert lifecycle.heartbeat(session, second, progress=0.5, metrics={"loss": [1.0]}) is False
    assert (round_of(stored, row.id).progress, round_of(stored, row.id).metrics) == (0.5, {"loss": [1.0]})


def test_ending_a_round_needs_its_lease(stored):
    stored.judged()
    row = claim(stored)
    nobody = Lease(row.id, 99, "nobody", 60)
    with stored.database.write() as session, pytest.raises(LostLease):
        lifecycle.heartbeat(session, nobody)
    with pytest.raises(LostLease):
        publish(stored, nobody, "adapter")
