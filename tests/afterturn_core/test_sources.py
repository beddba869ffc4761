"""Who told how a turn was, and rounds in which no one of several has the say."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.history import store_content
from afterturn_core.lifecycle import Piece, RoundPlan
from afterturn_core.models import Agent, Turn
from afterturn_core.sources import sources_of, within_share


def called(name: str) -> dict[str, object]:
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": name, "arguments": "{}"}}]}


def test_the_source_is_the_user_or_else_the_tool(stored: StoredTurns) -> None:
    unnamed, named, tool, both = (stored.turn() for _ in range(4))
    with stored.database.write() as session:
        session.get_one(Turn, named).client_user = "ada"
        for turn_id in (tool, both):
            session.get_one(Turn, turn_id).reply_digest = store_content(session, called("bash"))
            lifecycle.believe(session, turn_id, "later", [Piece("tool", "exit code 1")])
        for turn_id in (unnamed, named, both):
            lifecycle.believe(session, turn_id, "later", [Piece("user", "No.")])
    with stored.database.read() as session:
        rows = [session.get_one(Turn, turn_id) for turn_id in (unnamed, named, tool, both)]
        found = sources_of(session, rows)
    assert [found[row.id] for row in rows] == ["user", "user ada", "tool bash", "user"]


@pytest.mark.parametrize(
    ("heard", "share", "most", "chosen"),
    [
        ("aaaa", 0.5, 3, [0, 1, 2]),  # alone
        ("aaaab", 0.5, 5, [0, 4]),
        ("aaaaaab", 0.8, 7, [0, 1, 2, 3, 6]),
        ("aaaabb", 0.8, 6, [0, 1, 2, 3, 4, 5]),
        ("aaaaaaab", 1.0, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("aab", 0.3, 3, [0, 1, 2]),  # two cannot each stay below a third
    ],
)
def test_no_source_has_more_than_its_share(heard: str, share: float, most: int, chosen: list[int]) -> None:
    ids = [str(number) for number in range(len(heard))]
    found = within_share(ids, dict(zip(ids, heard, strict=True)), share, most)
    assert found == [str(number) for number in chosen]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.floats(0.34, 1.0), st.integers(1, 30))
def test_whatever_waits_something_is_chosen_in_order_and_within_the_share(
    heard: list[str], share: float, most: int
) -> None:
    ids = [f"{number:02}" for number in range(len(heard))]
    sources = dict(zip(ids, heard, strict=True))
    chosen = within_share(ids, sources, share, most)
    assert chosen == sorted(set(chosen))
    assert bool(chosen) == bool(ids)
    assert len(chosen) <= most
    several = len(set(heard))
    if several > 1 and several * share >= 1 and most >= several:
        assert max(Counter(sources[turn_id] for turn_id in chosen).values()) <= share * len(chosen) + 1e-9


def test_what_a_round_leaves_waits_for_the_next(stored: StoredTurns) -> None:
    turn_ids = [stored.judged() for _ in range(6)]
    with stored.database.write() as session:
        session.get_one(Turn, turn_ids[-1]).client_user = "grace"
        agent = session.get_one(Agent, stored.agent_id)
        plan = RoundPlan(objective="hybrid", max_turns=64, source_share=0.8)
        taken = lifecycle.claim_round(session, agent, plan).turn_ids
    assert taken == [*turn_ids[:4], turn_ids[5]]
    assert stored.load(turn_ids[4]).state == "judged"
