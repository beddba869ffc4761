"""What is left after erasing, in the tables themselves."""

from sqlmodel import col, select
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.erasure import erase_turns
from afterturn_core.lifecycle import Piece
from afterturn_core.models import JudgeCall


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
