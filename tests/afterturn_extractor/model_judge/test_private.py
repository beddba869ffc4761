"""What another's server is shown, and which turns are kept out of training."""

import pytest
from tests.afterturn_extractor.model_judge.test_judge import MakeJudge, engine, evidence, judge, vote
from tests.stored_turns import StoredTurns

from afterturn_engine.scripted import ScriptedEngine
from afterturn_extractor import rules
from afterturn_extractor.judging import judge_turn

__all__ = ["engine", "judge"]
SECRET = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(("mask", "shown"), [("judge", False), ("off", True)])
def test_a_judge_elsewhere_is_shown_no_secret(
    judge: MakeJudge,
    engine: tuple[str, ScriptedEngine],
    mask: str,
    shown: bool,
) -> None:
    judge(vote(0), vote(0), vote(0), mask=mask)(evidence(f"Hm, the crane's key is {SECRET}."))
    assert engine[1].received
    assert all((SECRET in str(request.body)) == shown for request in engine[1].received)


@pytest.mark.parametrize("keep_out", [True, False])
def test_a_turn_that_heard_a_secret_is_not_trained(stored: StoredTurns, keep_out: bool) -> None:
    turn_id = stored.observed(f"No, that is wrong: use {SECRET}.")
    state = judge_turn(stored.database, rules.judge, turn_id, without_secrets=keep_out)
    assert (state == "excluded") == keep_out
    assert stored.load(turn_id).excluded_reason == ("masked" if keep_out else None)
