"""What is left after erasing, in the tables themselves."""

import threading

from sqlmodel import col, select
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.erasure import erase_turns
from afterturn_core.lifecycle import Piece, RoundPlan
from afterturn_core.models import Agent, JudgeCall, Round, Turn
from afterturn_core.retention import remove_old_turns


def test_what_a_judge_model_wrote_about_an_erased_turns_words_goes_and_its_cost_stays(
    stored: StoredTurns,
) -> None:
    before, erased = stored.turn(), stored.turn()
    with stored.database.write() as session:
        lifecycle.believe(session, before, erased, [Piece("user", "My PIN is 4711.")])
        session.add(
            JudgeCall(key="one", turn_id=before, model="m", answer="The user told 4711.", prompt_tokens=7)
        )
    with stored.database.write() as session:
        erase_turns(session, [erased])
    with stored.database.read() as session:
        kept = session.exec(select(JudgeCall).where(col(JudgeCall.turn_id) == before)).one()
    assert (kept.answer, kept.prompt_tokens) == (None, 7)


def test_a_round_that_claims_a_turn_while_it_is_erased_is_asked_to_stop(stored: StoredTurns) -> None:
    turn_id = stored.judged()

    def erase() -> None:
        with stored.database.write() as session:
            erase_turns(session, [turn_id])

    erasing = threading.Thread(target=erase)
    with stored.database.write() as session:
        round_id = lifecycle.claim_round(
            session, session.get_one(Agent, stored.agent_id), RoundPlan(objective="hybrid", max_turns=64)
        ).id
        erasing.start()
        erasing.join(0.5)  # where it does not wait for the claim, it has looked for rounds by now
    erasing.join()
    with stored.database.read() as session:
        assert session.get(Turn, turn_id) is None
        assert session.get_one(Round, round_id).cancel_requested


def test_what_is_claimed_at_this_moment_is_not_old_enough_to_go(stored: StoredTurns) -> None:
    turn_id = stored.judged()
    removed: list[str] = []
    removing = threading.Thread(target=lambda: removed.extend(remove_old_turns(stored.database, 1e-9)))
    with stored.database.write() as session:
        lifecycle.claim_round(
            session, session.get_one(Agent, stored.agent_id), RoundPlan(objective="hybrid", max_turns=64)
        )
        removing.start()
        removing.join(0.5)
    removing.join()
    with stored.database.read() as session:
        assert session.get_one(Turn, turn_id).state == "claimed"
    assert removed == []
