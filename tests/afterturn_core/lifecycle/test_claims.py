"""Which turns a round takes, and when there is none."""

from datetime import timedelta

import pytest
from tests.afterturn_core.lifecycle.steps import claim

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.errors import Conflict
from afterturn_core.lifecycle import RoundPlan
from afterturn_core.models import Agent, Turn


def test_a_round_takes_judged_turns_but_neither_held_out_nor_resting_ones(stored):
    usable = stored.judged()
    held_out, resting = stored.judged(), stored.judged()
    with stored.database.write() as session:
        session.get_one(Turn, held_out).held_out = True
        session.get_one(Turn, resting).claimable_at = utc_now() + timedelta(hours=1)
    row = claim(stored)
    assert row.turn_ids == [usable]
    assert stored.load(usable).state == "claimed"
    assert stored.load(held_out).state == stored.load(resting).state == "judged"


def test_a_round_takes_the_oldest_up_to_its_size(stored):
    turn_ids = [stored.judged() for _ in range(4)]
    assert claim(stored, RoundPlan(objective="hybrid", max_turns=3)).turn_ids == turn_ids[:3]


def test_there_is_never_a_second_round_an_empty_one_or_one_of_a_frozen_agent(stored):
    with pytest.raises(Conflict):
        claim(stored)
    stored.judged()
    with stored.database.write() as session:
        session.get_one(Agent, stored.agent_id).frozen = True
    with pytest.raises(Conflict):
        claim(stored)
    with stored.database.write() as session:
        session.get_one(Agent, stored.agent_id).frozen = False
    claim(stored)
    stored.judged()
    with pytest.raises(Conflict):
        claim(stored)


def test_a_tenth_of_all_turns_is_held_out_for_ever():
    held_out = [lifecycle.is_held_out(f"turn_{number}") for number in range(2000)]
    assert 150 < sum(held_out) < 250
    assert held_out == [lifecycle.is_held_out(f"turn_{number}") for number in range(2000)]
