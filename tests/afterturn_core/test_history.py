"""Conversations stored once come back as they were."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func
from sqlmodel import select

from afterturn_core.history import (
    BLOCK,
    KEYFRAME_EVERY,
    load_history,
    load_prompt,
    pack_ids,
    pack_logprobs,
    store_history,
    store_prompt,
    unpack_ids,
    unpack_logprobs,
)
from afterturn_core.models import Content, HistoryNode, Turn


def count(session, table):
    return session.exec(select(func.count()).select_from(table)).one()


def message(number):
    return {"role": "user" if number % 2 == 0 else "assistant", "content": f"text {number}"}


def test_growing_and_forking_histories_share_what_is_equal(database):
    with database.write() as session:
        long = [message(number) for number in range(40)]
        digests = [store_history(session, long[:length]) for length in range(1, 41)]
        assert count(session, HistoryNode) == 40
        fork = store_history(session, [*long[:30], {"role": "user", "content": "else"}])
        assert count(session, HistoryNode) == 41
        assert count(session, Content) == 41
    with database.read() as session:
        for length, digest in enumerate(digests, start=1):
            assert load_history(session, digest) == long[:length]
        assert load_history(session, fork)[-1]["content"] == "else"
        assert load_history(session, store_history(session, [])) == []


@pytest.mark.parametrize("last", [1, 2, 8, 9, 40])
def test_the_last_messages_of_a_history_are_its_end(database, last):
    long = [message(number) for number in range(9)]
    with database.write() as session:
        digest = store_history(session, long)
        assert load_history(session, digest, last=last) == long[-last:]


def test_a_history_longer_than_one_look_up_is_stored_once(database):
    long = [message(number % 7) for number in range(1203)]
    with database.write() as session:
        digest = store_history(session, long)
        assert count(session, HistoryNode) == 1203
        assert count(session, Content) == 7
        assert store_history(session, long) == digest
        assert store_history(session, [*long, message(3)]) != digest
        assert count(session, HistoryNode) == 1204
    with database.read() as session:
        assert load_history(session, digest) == long


def test_messages_come_back_with_every_field_in_order(database):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "ä\u2028", "cache_control": {}}], "name": None},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "function": {"arguments": "{ }"}}]},
    ]
    with database.write() as session:
        digest = store_history(session, messages)
    with database.read() as session:
        loaded = load_history(session, digest)
    assert loaded == messages
    assert [list(one) for one in loaded] == [list(one) for one in messages]


@given(st.lists(st.integers(0, 2**31 - 1), max_size=50))
def test_ids_survive_packing(ids):
    assert unpack_ids(pack_ids(ids)) == ids


@given(st.lists(st.floats(max_value=0, width=32, allow_nan=False), max_size=50))
def test_logprobs_survive_packing(values):
    assert unpack_logprobs(pack_logprobs(values)) == values


@pytest.mark.parametrize("seed", range(3))
def test_prompts_are_exact_along_chains_and_forks(stored, seed):
    choose = random.Random(seed)
    expected, turns = {}, []
    for _ in range(2 * KEYFRAME_EVERY):
        turn_id = stored.turn()
        with stored.database.write() as session:
            turn = session.get_one(Turn, turn_id)
            base = session.get_one(Turn, choose.choice(turns[-3:])) if turns else None
            before = [] if base is None else expected[base.id] + unpack_ids(base.token_ids)
            keep = choose.randint(0, len(before)) if choose.random() < 0.3 else len(before)
            expected[turn_id] = before[:keep] + [choose.randrange(1000) for _ in range(choose.randint(0, 9))]
            store_prompt(session, turn, expected[turn_id], base)
            session.add(turn)
            assert turn.prompt_depth < KEYFRAME_EVERY
        turns.append(turn_id)
    with stored.database.read() as session:
        assert {
            turn_id: load_prompt(session, session.get_one(Turn, turn_id)) for turn_id in turns
        } == expected
        depths = [session.get_one(Turn, turn_id).prompt_depth for turn_id in turns]
    assert max(depths) > 3


def test_only_what_is_new_of_a_prompt_is_stored(stored):
    choose = random.Random(0)
    ids = [choose.randrange(40_000) for _ in range(4000)]
    turn_id, next_id = stored.turn(), stored.turn()
    with stored.database.write() as session:
        turn, following = session.get_one(Turn, turn_id), session.get_one(Turn, next_id)
        store_prompt(session, turn, ids, None)
        store_prompt(session, following, [*ids, *unpack_ids(turn.token_ids), 5, 6], turn)
        assert turn.prompt_shared == 3 * BLOCK
        assert unpack_ids(turn.prompt_tail) == ids[3 * BLOCK :]
        assert unpack_ids(following.prompt_tail) == [5, 6]
        assert following.prompt_tokens == 4005


def test_conversations_that_begin_alike_share_their_prompts_blocks(stored):
    """An agent's instructions are thousands of ids in front of every conversation."""
    choose = random.Random(0)
    instructions = [choose.randrange(40_000) for _ in range(5 * BLOCK + 10)]
    prompts = {}
    for number in range(4):
        turn_id = stored.turn()
        prompts[turn_id] = [*instructions, *range(number, number + 2 * BLOCK)]
        with stored.database.write() as session:
            before = count(session, Content)
            turn = session.get_one(Turn, turn_id)
            store_prompt(session, turn, prompts[turn_id], None)
            # The block in which they begin to differ, and what follows it, are this one's own.
            assert count(session, Content) - before == (7 if number == 0 else 2)
    with stored.database.read() as session:
        assert {
            turn_id: load_prompt(session, session.get_one(Turn, turn_id)) for turn_id in prompts
        } == prompts


def test_a_prompt_stored_whole_by_older_code_is_read(stored):
    turn_id = stored.turn()
    with stored.database.write() as session:
        turn = session.get_one(Turn, turn_id)
        turn.prompt_head, turn.prompt_shared, turn.prompt_tail = None, 0, pack_ids(range(3000))
    with stored.database.read() as session:
        assert load_prompt(session, session.get_one(Turn, turn_id)) == list(range(3000))
