"""What a session's outcome does to its turns, however late it comes: one value, less and less weight."""

import pytest
from sqlmodel import select
from tests.databases import KINDS

from afterturn_core.lifecycle import RoundPlan, acquire_lease, burn_version, claim_round, publish
from afterturn_core.models import Adapter, Agent, Turn
from afterturn_engine.scripted import Script
from afterturn_extractor import rules
from afterturn_extractor.judging import judge_turn

SESSION = {"X-Session-Id": "mine"}
WEIGHTS = [0.125, 0.25, 0.5, 1.0]


@pytest.fixture(params=KINDS)
def database_kind(request):
    return request.param


@pytest.fixture
def install(start):
    with start(Script(adapters_on_disk=False)) as stack:
        yield stack


def talk(stack, *texts):
    """Turns of one session, none of which is the next state of another; returns their ids."""
    return [stack.chat([{"role": "user", "content": text}], headers=SESSION)["turn_id"] for text in texts]


def tell(stack, **event):
    """An event is stored, and every turn that waits is judged; returns the event's id."""
    with stack.client() as client:
        response = client.post("/v1/feedback", json=event)
    assert response.status_code == 201, response.text
    judge(stack)
    return response.json()["id"]


def settle(stack, value, **about):
    """How the session turned out."""
    return tell(stack, session_id="mine", kind="outcome", value=value, **about)


def undo(stack, feedback_id):
    with stack.client() as client:
        assert client.delete(f"/v1/feedback/{feedback_id}").is_success
    judge(stack)


def judge(stack):
    with stack.database.read() as session:
        waiting = session.exec(select(Turn.id).where(Turn.state == "observed")).all()
    for turn_id in waiting:
        judge_turn(stack.database, rules.judge, turn_id)


def said(stack, turn_ids):
    """Verdict and weight of each turn, None for one that nobody judged."""
    signals = [stack.turn(turn_id)["signal"] for turn_id in turn_ids]
    return [signal and (signal["verdict"], signal["weight"]) for signal in signals]


def trained(stack, turn_ids):
    """A version that learned from these judged turns; returns its name."""
    with stack.database.write() as session:
        for turn in session.exec(select(Turn)).all():
            turn.held_out = turn.id not in turn_ids  # those are in no round
            session.add(turn)
        session.flush()
        agent = session.exec(select(Agent).where(Agent.name == "default")).one()
        row = claim_round(session, agent, RoundPlan(objective="hybrid", max_turns=8))
        assert set(row.turn_ids) == set(turn_ids)
        lease = acquire_lease(session, row.id, "me", 60)
        adapter = burn_version(session, lease, turn.model_hash)
        publish(session, lease, adapter.id, path=adapter.name, sha256="0", gate={}, metrics={})
        return adapter.name


def marks(stack, name):
    with stack.database.read() as session:
        return session.exec(select(Adapter.marks).where(Adapter.name == name)).one()


@pytest.mark.parametrize(("value", "verdict"), [(1, 1), (0.7, 1), (0.5, 0), (0.3, -1), (0, -1)])
def test_every_turn_gets_the_outcomes_verdict_and_its_own_weight(install, value, verdict):
    turn_ids = talk(install, "one", "two", "three", "four", "five")
    settle(install, value)
    assert said(install, turn_ids) == [None, *((verdict, weight) for weight in WEIGHTS)]
    with install.client() as client:
        own = client.get(f"/v1/turns/{turn_ids[2]}").json()
    assert own["signal"]["weight"] == 0.25
    listed = install.admin("GET", "signals").json()["data"]
    assert {row["turn_id"]: row["weight"] for row in listed} == dict(zip(turn_ids[1:], WEIGHTS, strict=True))


def test_an_unresolved_session_says_nothing(install):
    turn_ids = talk(install, "one", "two")
    with install.client() as client:
        unresolved = {"session_id": "mine", "kind": "outcome"}
        assert client.post("/v1/feedback", json=unresolved).status_code == 400
    assert said(install, turn_ids) == [None, None]


@pytest.mark.parametrize("thumb_first", [True, False])
def test_explicit_feedback_decides_in_either_order_and_with_its_whole_weight(install, thumb_first):
    turn_ids = talk(install, "one", "two", "three")
    thumb = {"turn_id": turn_ids[1], "kind": "thumb", "value": -1}
    if thumb_first:
        thumb_id = tell(install, **thumb)
        settle(install, 1)
    else:
        settle(install, 1)
        thumb_id = tell(install, **thumb)
    assert said(install, turn_ids) == [(1, 0.25), (-1, 1.0), (1, 1.0)]
    assert install.turn(turn_ids[1])["signal"]["disagreement"]
    undo(install, thumb_id)
    assert said(install, turn_ids) == [(1, 0.25), (1, 0.5), (1, 1.0)]


def test_a_second_outcome_replaces_the_first_where_it_reaches_and_comes_off_again(install):
    turn_ids = talk(install, "one", "two", "three")
    first = settle(install, 1)
    turn_ids += talk(install, "four", "five")
    second = settle(install, 0)
    assert said(install, turn_ids) == [(1, 0.25), *((-1, weight) for weight in WEIGHTS)]
    undo(install, second)
    assert said(install, turn_ids[:3]) == [(1, 0.25), (1, 0.5), (1, 1.0)]
    assert said(install, turn_ids[3:]) == [(None, 1.0), (None, 1.0)]
    undo(install, first)
    assert said(install, turn_ids) == [(None, 1.0)] * 5


def test_the_same_outcome_again_adds_no_weight(install):
    turn_ids = talk(install, "one", "two")
    settle(install, 1)
    settle(install, 1)
    assert said(install, turn_ids) == [(1, 0.5), (1, 1.0)]


def test_an_outcome_for_one_turn_stays_with_it(install):
    turn_ids = talk(install, "one", "two", "three")
    tell(install, turn_id=turn_ids[1], kind="outcome", value=1)
    assert said(install, turn_ids) == [None, (1, 1.0), None]


def praised(stack):
    """A session whose first two replies the user praised and an adapter learned from; the ids of its three
    turns, and the adapter's name."""
    messages, turn_ids = [], []
    for text in ("What is a mutex?", "Perfect, thanks! And a latch?", "Great, thank you! Bye."):
        messages.append({"role": "user", "content": text})
        reply = stack.chat(messages, headers=SESSION)
        messages.append(reply["choices"][0]["message"])
        turn_ids.append(reply["turn_id"])
    with stack.client() as client:
        assert client.post("/v1/sessions/mine/end").is_success
    judge(stack)
    assert said(stack, turn_ids) == [(1, 1.0), (1, 1.0), None]
    return turn_ids, trained(stack, turn_ids[:2])


def test_an_outcome_days_after_training_marks_what_it_contradicts(install):
    turn_ids, name = praised(install)
    settle(install, 0, occurred_at="2030-01-02T03:04:05Z")
    turns = [install.turn(turn_id) for turn_id in turn_ids]
    assert said(install, turn_ids) == [(-1, 0.25), (-1, 0.5), (-1, 1.0)]
    assert [turn["signal"]["revision"] for turn in turns] == [2, 2, 1]
    assert [turn["signal"]["source"] for turn in turns] == ["outcome"] * 3
    assert [turn["state"] for turn in turns] == ["judged"] * 3
    assert marks(install, name) == ["stale"]


def test_an_outcome_that_is_taken_back_after_training_takes_its_word_from_every_turn(install):
    turn_ids = talk(install, "one", "two", "three")
    event = settle(install, 0)
    name = trained(install, turn_ids)
    undo(install, event)
    assert said(install, turn_ids) == [(None, 1.0)] * 3
    assert [install.turn(turn_id)["state"] for turn_id in turn_ids] == ["abstained"] * 3
    assert marks(install, name) == ["stale"]


def test_an_outcome_days_after_training_that_agrees_changes_nothing_of_it(install):
    turn_ids, name = praised(install)
    settle(install, 1, occurred_at="2030-01-02T03:04:05Z")
    turns = [install.turn(turn_id) for turn_id in turn_ids]
    assert said(install, turn_ids) == [(1, 0.25), (1, 0.5), (1, 1.0)]
    assert [turn["signal"]["revision"] for turn in turns] == [2, 2, 1]
    assert [turn["state"] for turn in turns] == ["trained", "trained", "judged"]
    assert marks(install, name) == []


def test_erasing_the_turn_an_outcome_is_about_takes_it_from_every_turn_back(install):
    turn_ids = talk(install, "one", "two", "three")
    event = settle(install, 1)
    name = trained(install, turn_ids[:2])
    with install.client() as client:
        receipt = client.delete(f"/v1/turns/{turn_ids[2]}").json()
        assert client.get(f"/v1/feedback/{event}").status_code == 404
    assert (receipt["turns"], receipt["feedback"], receipt["tainted_adapters"]) == (1, 1, [name])
    turns = [install.turn(turn_id) for turn_id in turn_ids[:2]]
    assert [(turn["state"], turn["signal"], turn["next_state"]) for turn in turns] == [("open", None, [])] * 2
    assert marks(install, name) == ["tainted"]
