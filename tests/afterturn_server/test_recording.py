"""Exchanges that are recorded together come out as if each had been recorded by itself."""

from dataclasses import replace

from sqlalchemy import bindparam
from sqlmodel import select

from afterturn_core.columns import utc_now
from afterturn_core.erasure import erase_empty_sessions, erase_turns
from afterturn_core.history import load_history, load_prompt
from afterturn_core.ids import new_id
from afterturn_core.models import Agent, Conversation, Key, Turn
from afterturn_server.linking import read_history
from afterturn_server.lookup import look_up, share_lookups
from afterturn_server.recording import Answered, Asked, Choice, Finished, record
from afterturn_server.resolution import Resolved
from afterturn_server.thread import find_place
from afterturn_server.turn_options import TurnOptions
from afterturn_server.upstream import Target

REPLY = {"role": "assistant", "content": "Paris."}
BY_NAME = select(Agent.id.label("agent_id")).where(Agent.name == bindparam("agent"))


def finished(stored, *texts, session=None, replies=1, done=False):
    """An exchange that has been admitted and answered: user texts, each but the last followed by REPLY."""
    messages = [{"role": "user", "content": texts[0]}]
    for text in texts[1:]:
        messages += [REPLY, {"role": "user", "content": text}]
    options, history = TurnOptions(session=session, done=done), read_history(messages)
    with stored.database.read() as looking:
        place = find_place(looking, stored.agent_id, stored.key_id, history, options, tools=None)
    asked = Asked(
        turn_id=new_id("turn"),
        key_id=stored.key_id,
        protocol="chat",
        client="test",
        created_at=utc_now(),
        messages=messages,
        tools=None,
        sampling={},
        history=history,
        options=options,
        resolved=Resolved(stored.agent_id, Target()),
        place=place,
        model_hash="0" * 16,
    )
    choices = tuple(Choice(number, REPLY, "stop", (7, 8), (-0.5, -0.5)) for number in range(replies))
    return Finished(asked, Answered(new_id("chatcmpl"), tuple(range(len(messages))), choices))


def kept(stored, *exchanges):
    with stored.database.write() as session:
        record(session, exchanges)
    return [turn(stored, one.asked.turn_id) for one in exchanges]


def turn(stored, turn_id):
    with stored.database.read() as session:
        return session.get(Turn, turn_id)


def test_each_keeps_its_own_words_and_its_own_session(stored):
    exchanges = [finished(stored, f"question {number % 3}", replies=2) for number in range(6)]
    turns = kept(stored, *exchanges)
    assert len({one.session_id for one in turns}) == 6
    with stored.database.read() as session:
        for one, exchange in zip(turns, exchanges, strict=True):
            assert load_history(session, one.history_digest) == exchange.asked.messages
            assert load_prompt(session, one) == list(exchange.answered.prompt_token_ids)
            other = session.exec(select(Turn).where(Turn.attempt_of == one.id)).one()
            assert (other.choice_index, other.session_id) == (1, one.session_id)


def test_of_equal_conversations_each_goes_on_from_its_own_turn(stored):
    first, second = kept(stored, finished(stored, "hi"), finished(stored, "hi"))
    onward = kept(stored, finished(stored, "hi", "more"), finished(stored, "hi", "more"))
    assert {one.parent_id for one in onward} == {first.id, second.id}
    assert {one.session_id for one in onward} == {first.session_id, second.session_id}


def test_first_requests_under_one_name_share_a_session(stored):
    turns = kept(stored, *(finished(stored, f"q{number}", session="mine") for number in range(3)))
    assert len({one.session_id for one in turns}) == 1


def test_a_session_that_one_of_them_closes_is_woken_by_those_after_it(stored):
    kept(stored, finished(stored, "hi", session="mine"))
    first, last = (finished(stored, f"q{number}", session="mine", done=number == 0) for number in range(2))
    (turn_, _) = kept(stored, first, last)
    with stored.database.read() as session:
        assert session.get_one(Conversation, turn_.session_id).ended_at is None
    kept(stored, finished(stored, "q2", session="mine"), finished(stored, "q3", session="mine", done=True))
    with stored.database.read() as session:
        assert session.get_one(Conversation, turn_.session_id).ended_at is not None


def test_a_session_that_was_erased_meanwhile_is_there_again_for_all_of_them(stored):
    (old,) = kept(stored, finished(stored, "hi", session="mine"))
    waiting = [finished(stored, f"another {number}", session="mine") for number in range(3)]
    with stored.database.write() as session:
        erase_turns(session, [old.id])
        erase_empty_sessions(session, {old.session_id})
    turns = kept(stored, *waiting)
    assert {one.session_id for one in turns} == {old.session_id}
    with stored.database.read() as session:
        assert session.get_one(Conversation, old.session_id).external_id == "mine"


def test_what_goes_on_from_erased_words_is_not_stored_and_its_neighbours_are(stored):
    (old,) = kept(stored, finished(stored, "hi"))
    onward, other = finished(stored, "hi", "more"), finished(stored, "else")
    with stored.database.write() as session:
        erase_turns(session, [old.id])
    assert [one is None for one in kept(stored, onward, other)] == [True, False]


def test_what_has_been_recorded_is_not_recorded_again(stored):
    one = finished(stored, "hi")
    kept(stored, one)
    other = finished(stored, "else")
    assert None not in kept(stored, replace(one, again=True), other)


def test_only_lookups_that_are_shared_keep_what_they_found(stored):
    def found(session):
        return look_up(session, BY_NAME, {"agent": "default"})

    with stored.database.write() as session:
        assert found(session).agent_id == stored.agent_id
        session.get_one(Agent, stored.agent_id).name = "renamed"
        session.flush()
        assert found(session) is None
    with stored.database.read() as session:
        share_lookups(session)
        assert found(session) is None
        assert look_up(session, BY_NAME, {"agent": "renamed"}).agent_id == stored.agent_id
    with stored.database.write() as session:
        session.get_one(Agent, stored.agent_id).name = "default"
        assert session.get_one(Key, stored.key_id).agent_id == stored.agent_id
    with stored.database.read() as session:
        share_lookups(session)
        assert found(session).agent_id == stored.agent_id
