"""What a round is read as."""

from pathlib import Path

import pytest
from tests.afterturn_trainer.world import World

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
