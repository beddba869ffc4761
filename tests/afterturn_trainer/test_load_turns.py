"""What a round is read as."""

from pathlib import Path

import pytest
from tests.afterturn_trainer.world import World

from afterturn_core import lifecycle
from afterturn_core.lifecycle import Piece, SignalDraft
from afterturn_core.models import Turn
from afterturn_trainer.load_turns import load_round
from afterturn_trainer.teacher_prompt import Told


@pytest.mark.parametrize(("protocol", "told"), [("chat", Told("user", "hello")), ("completions", None)])
def test_a_text_completion_was_told_no_message(
    tiny_folder: Path, tmp_path: Path, protocol: str, told: Told | None
) -> None:
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    try:
        world.store("hello", [5, 6, 7], [8, 2], [-1.0, -1.0], "stop", 1)
        claimed = world.claim()
        with world.database.write() as session:
            (turn_id,) = claimed.turn_ids
            turn = session.get_one(Turn, turn_id)
            turn.protocol = protocol
            session.add(turn)
            session.flush()
            (loaded,) = load_round(session, claimed.id).turns
    finally:
        world.close()
    assert loaded.told == told


def test_a_round_reads_the_weight_of_the_signal_that_was_claimed(tiny_folder: Path, tmp_path: Path) -> None:
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    try:
        turn = world.store("hello", [5, 6, 7], [8, 2], [-1.0, -1.0], "stop", 1)
        with world.database.write() as session:
            lifecycle.add_feedback(session, turn.id, "f", Piece("outcome", "", "outcome", 0.0, 0.25))
            stamp = session.get_one(Turn, turn.id).observed_at
            draft = SignalDraft(-1, "outcome", (-1,), weight=0.25)
            lifecycle.save_signal(session, turn.id, draft, evidence_of=stamp)
        claimed = world.claim()
        with world.database.read() as session:
            (loaded,) = load_round(session, claimed.id).turns
    finally:
        world.close()
    assert (loaded.verdict, loaded.weight) == (-1, 0.25)
