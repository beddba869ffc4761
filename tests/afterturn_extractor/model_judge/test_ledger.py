"""What two workers that ask the same at the same time leave behind."""

import threading

from tests.stored_turns import StoredTurns

from afterturn_core.models import JudgeCall
from afterturn_extractor.model_judge.answer import Answer, read
from afterturn_extractor.model_judge.ledger import Spent, keep, kept

GOOD, BAD = (
    read(f'{{"reason": "seen", "addressed": false, "verdict": {verdict}, "hints": []}}')
    for verdict in (1, -1)
)


def test_an_answer_that_comes_twice_is_kept_once_and_paid_for_twice(stored: StoredTurns) -> None:
    turn_id = stored.turn()

    def answer(given: Answer, meanwhile: threading.Thread | None = None) -> None:
        with stored.database.write() as session:
            spent = Spent(7, 3)
            keep(session, "one", given, spent, agent_id=stored.agent_id, turn_id=turn_id, model="m")
            if meanwhile is not None:
                meanwhile.start()
                meanwhile.join(0.3)  # it has looked by now, and waits for this transaction

    other = threading.Thread(target=answer, args=(BAD,))
    answer(GOOD, other)
    other.join()
    with stored.database.read() as session:
        row = session.get_one(JudgeCall, "one")
        assert (row.prompt_tokens, row.completion_tokens) == (14, 6)
        found = kept(session, "one")
    assert found is not None
    assert found.answer == BAD
