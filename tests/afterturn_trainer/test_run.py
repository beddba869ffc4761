"""Whole rounds: a migrated database, the tiny model, the embedded engine as a process."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
from sqlmodel import Session, select
from tests.afterturn_trainer.world import World

from afterturn_core import lifecycle
from afterturn_core.history import load_prompt, unpack_ids
from afterturn_core.models import Agent, Round, Training, Turn
from afterturn_trainer.adapter_folder import MOMENTS, verify
from afterturn_trainer.run import run_round

PATIENCE_S = 240.0
HINT = "say it in other words"


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)


def at_the_gate(world: World, round_id: str, change: Callable[[Session], object]) -> None:
    """Make a change while a round is at its gate: it cannot go on between the look and the change.

    The gate of weights that were asked before takes no time, since replies are remembered: every test that
    waits for it trains a turn of its own.
    """

    def changed() -> bool:
        with world.database.write() as session:
            found = session.get_one(Round, round_id).state == "gating"
            if found:
                change(session)
        return found

    eventually(changed, "the gate")


def reply_logprob(world: World, model: str, turn: Turn) -> float:
    """Mean log-probability of a turn's reply under what the engine serves as `model`."""
    with world.database.read() as session:
        prompt = load_prompt(session, turn)
    reply = unpack_ids(turn.token_ids)
    values = world.engine.prompt_logprobs(model, [*prompt, *reply])[len(prompt) :]
    return fmean(value for value in values if value is not None)


def served(world: World) -> set[str]:
    return {card.id for card in world.engine.models()}


def started(world: World, round_id: str) -> threading.Thread:
    """Run a round beside the test, with a lease so short that what happens is soon noticed."""
    thread = threading.Thread(target=run_round, args=(round_id, world.settings_with(lease_s=1.5)))
    thread.start()
    return thread


def test_rounds_publish_and_replies_move_with_their_verdicts(world: World) -> None:
    """Two rounds: the loop closes, the second continues the first, and the engine serves the result."""
    good, bad = world.turn("tell me of the sea", 1, seed=1), world.turn("and of the stars", -1, seed=2)
    first = world.claim("rl", epochs=2)
    assert run_round(first.id, world.settings) == 0
    row, live = world.round(first.id), world.live()
    assert row.state == "published", row.error
    assert live is not None
    assert live.name in served(world)
    assert reply_logprob(world, live.name, good) > reply_logprob(world, "base", good)
    assert reply_logprob(world, live.name, bad) < reply_logprob(world, "base", bad)
    assert row.gate is not None
    assert row.gate["passed"] is True
    assert row.gate["real"]["engine"] == pytest.approx(row.gate["real"]["trainer"], abs=1e-3)
    assert row.gate["kept"]["probes"] >= 100
    assert row.metrics["reward_mean"] == 0.0
    assert row.metrics["engine_gap"] < 1e-3
    assert world.turn_row(good.id).state == "trained"

    world.turn("once more", 1, (HINT,), seed=3)
    second = world.claim()
    assert run_round(second.id, world.settings) == 0
    rows = world.adapters()
    assert [(a.version, a.state) for a in rows] == [(1, "published"), (2, "published")]
    assert rows[1].parent_id == rows[0].id
    manifests = [verify(Path(str(a.path))) for a in rows]
    assert manifests[1].parent == rows[0].name
    assert manifests[1].sha256 == rows[1].sha256
    assert not (Path(str(rows[0].path)) / MOMENTS).exists()
    assert (Path(str(rows[1].path)) / MOMENTS).exists()
    with world.database.read() as session:
        used = session.exec(select(Training).where(Training.round_id == first.id)).all()
    assert {training.turn_id for training in used} == {good.id, bad.id}


def test_an_absurd_rate_is_rejected_and_the_next_round_is_clean(world: World) -> None:
    """B20, B33: live unchanged, the candidate gone from the engine, its turns come back once."""
    turn = world.turn("tell me of the sea", 1, (HINT,), seed=1)
    wild = world.claim(learning_rate=3.0)
    assert run_round(wild.id, world.settings) in (0, 1)
    row = world.round(wild.id)
    assert row.state in ("rejected", "failed")
    assert row.error
    assert world.live() is None
    assert not any(name.startswith(world.agent) for name in served(world))
    assert [adapter.state for adapter in world.adapters()] == ["rejected"]

    with world.database.write() as session:
        waiting = session.get_one(Turn, turn.id)
        assert waiting.state == "judged"
        waiting.claimable_at = None  # the pause is over
        session.add(waiting)
    clean = world.claim()
    assert run_round(clean.id, world.settings) == 0
    assert world.round(clean.id).state == "published"
    live = world.live()
    assert live is not None
    assert live.version == 2


def test_a_rollback_during_the_round_wins(world: World) -> None:
    world.turn("tell me of the wind", 1, (HINT,), seed=11)
    before = world.claim()
    assert run_round(before.id, world.settings) == 0
    world.turn("and of the clouds", -1, seed=12)
    claimed = world.claim()
    thread = started(world, claimed.id)
    at_the_gate(
        world,
        claimed.id,
        lambda session: lifecycle.rollback(session, session.get_one(Agent, world.agent_id), 0),
    )
    thread.join()
    row = world.round(claimed.id)
    assert row.state == "rejected"
    assert row.error is not None
    assert "live adapter changed" in row.error
    assert world.live() is None
    assert f"{world.agent}@v2" not in served(world)


def test_a_cancelled_round_gives_its_turns_back(world: World) -> None:
    turn = world.turn("tell me of the rain", 1, (HINT,), seed=21)
    claimed = world.claim()
    thread = started(world, claimed.id)
    at_the_gate(world, claimed.id, lambda session: lifecycle.request_cancel(session, claimed.id))
    thread.join()
    assert world.round(claimed.id).state == "cancelled"
    assert world.turn_row(turn.id).state == "judged"
    assert world.live() is None
    assert f"{world.agent}@v1" not in served(world)


def test_a_killed_round_is_trained_once_by_the_next_worker(world: World) -> None:
    """B16: killed between folder and publication; its number is burned, its turns are used once."""
    turn = world.turn("tell me of the snow", 1, (HINT,), seed=31)
    claimed = world.claim()
    environment = {
        **os.environ,
        "AFTERTURN_DATA_DIR": str(world.settings.data_dir),
        "AFTERTURN_MODEL": world.settings.model,
        "AFTERTURN_ENGINE_URL": world.settings.engine_url,
        "AFTERTURN_LEASE_S": "2",
    }
    command = [sys.executable, "-m", "afterturn_trainer", "round", claimed.id]
    process = subprocess.Popen(command, env=environment)
    folder = world.settings.adapter_root / world.agent / "v1"

    def kill(_: Session) -> None:
        assert folder.is_dir()
        process.kill()
        process.wait()

    at_the_gate(world, claimed.id, kill)
    assert world.live() is None

    def over() -> bool:
        run_round(claimed.id, world.settings)  # a no-op while the dead worker's lease lasts
        return world.round(claimed.id).state == "published"

    eventually(over, "the second attempt")
    assert run_round(claimed.id, world.settings) == 0  # and delivered once more, nothing happens
    assert [(a.version, a.state) for a in world.adapters()] == [(1, "rejected"), (2, "published")]
    with world.database.read() as session:
        used = session.exec(select(Training).where(Training.turn_id == turn.id)).all()
    assert [training.round_id for training in used] == [claimed.id]


def test_turns_of_another_base_model_are_not_trained(world: World) -> None:
    turn = world.turn("tell me of the sea", 1, model_hash="0123456789abcdef")
    claimed = world.claim()
    assert run_round(claimed.id, world.settings) == 1
    row = world.round(claimed.id)
    assert row.state == "failed"
    assert row.error is not None
    assert "another base model" in row.error
    assert world.turn_row(turn.id).state == "judged"


def test_an_engine_that_samples_from_other_weights_fails_the_round(world: World) -> None:
    for seed in range(3):
        world.turn("tell me of the sea", 1, seed=seed, logprob_error=-0.5)
    claimed = world.claim()
    assert run_round(claimed.id, world.settings) == 1
    error = world.round(claimed.id).error
    assert error is not None
    assert "do not hold the same model" in error


def test_an_engine_that_is_away_fails_the_round_with_its_reason(world: World) -> None:
    turn = world.turn("tell me of the sea", 1, seed=1)
    claimed = world.claim()
    assert run_round(claimed.id, world.settings_with(engine_url="http://127.0.0.1:9")) == 1
    row = world.round(claimed.id)
    assert row.state == "failed"
    assert row.error is not None
    assert "cannot be reached" in row.error
    assert world.turn_row(turn.id).state == "judged"
    assert not (world.settings.adapter_root / world.agent / "v1").exists()
