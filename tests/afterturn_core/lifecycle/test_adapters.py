"""Numbers that are never given twice, and which adapters can be live."""

import pytest
from tests.afterturn_core.lifecycle.steps import adapter_of, claim, lease, trained

from afterturn_core import lifecycle
from afterturn_core.errors import Conflict, NotFound, RequestError
from afterturn_core.models import Adapter, Agent


def test_versions_are_burned_by_attempts_and_never_given_twice(stored):
    stored.judged()
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        first = lifecycle.burn_version(session, held, "hash")
        second = lifecycle.burn_version(session, held, "hash")
    assert (first.name, second.name) == ("default@v1", "default@v2")
    with stored.database.write() as session:
        lifecycle.fail(session, held, "broken")
    assert adapter_of(stored, first.id).state == adapter_of(stored, second.id).state == "rejected"
    row = claim(stored)
    with stored.database.write() as session:
        third = lifecycle.burn_version(session, lifecycle.acquire_lease(session, row.id, "w", 60), "hash")
    assert third.version == 3


def test_going_back_step_by_step_by_number_and_to_the_base(stored):
    _, first = trained(stored)
    _, second = trained(stored)

    def back(to):
        with stored.database.write() as session:
            return lifecycle.rollback(session, session.get_one(Agent, stored.agent_id), to).live_adapter_id

    assert back(None) == first.id
    assert back(2) == second.id
    assert back(0) is None
    with pytest.raises(RequestError):
        back(None)
    with pytest.raises(NotFound):
        back(9)
    assert stored.agent().live_adapter_id is None


@pytest.mark.parametrize("change", [{"state": "candidate"}, {"path": None}, {"marks": ["tainted"]}])
def test_only_a_whole_clean_adapter_can_be_live(stored, change):
    _, adapter = trained(stored)
    with stored.database.write() as session:
        row = session.get_one(Adapter, adapter.id)
        for name, value in change.items():
            setattr(row, name, value)
    with stored.database.write() as session, pytest.raises(Conflict):
        lifecycle.promote(session, session.get_one(Adapter, adapter.id))
