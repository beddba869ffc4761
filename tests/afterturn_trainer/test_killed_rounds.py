"""A trainer killed at every step of a round: the next takes its turns up, and they are trained once."""

import os
import subprocess
import sys

from sqlmodel import select
from tests.afterturn_trainer.world import World

from afterturn_core.models import Training
from afterturn_trainer.adapter_folder import MOMENTS, REJECTED, verify

# One attempt after the other, each in a process of its own (forked, so that torch is loaded once) that kills
# itself when it enters a function: the Nth word is FILE:FUNCTION. A last attempt is left alone.
ATTEMPTS = """
import os, signal, sys, time
from afterturn_core.database import Database
from afterturn_core.models import RUNNING_ROUNDS, Round
from afterturn_core.settings import load_settings
from afterturn_trainer.run import run_round
import afterturn_trainer.train, peft, transformers

round_id, *points = sys.argv[1:]

def dies_at(point):
    file, name = point.split(":")
    def look(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name == name and code.co_filename.endswith("/" + file):
            os.kill(os.getpid(), signal.SIGKILL)
    return look

def over(round_id):
    database = Database(load_settings().effective_database_url)
    with database.read() as session:
        state = session.get_one(Round, round_id).state
    database.close()
    return state not in RUNNING_ROUNDS

for point in [*points, None]:
    child = os.fork()
    if child == 0:
        if point is not None:
            sys.setprofile(dies_at(point))
        # Whoever comes next waits for the dead one's lease.
        while run_round(round_id, load_settings()) == 0 and not over(round_id):
            time.sleep(0.1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    print("==", point, "killed" if killed else f"exit {os.waitstatus_to_exitcode(status)}", flush=True)
"""
BEFORE_PUBLISHED = (
    "train.py:train",
    "update.py:run_update",
    "adapters.py:burn_version",
    "adapter_folder.py:write_adapter",
    "moments.py:save_moments",
    "replicas.py:load",  # the folder is there, no engine has it
    "run.py:_gate",  # loaded, not looked at
    "gate.py:judge_real",
    "margin.py:judge_margins",
    "gate.py:judge_drift",
    "try_out.py:_kept",
    "gate.py:judge_kept",
    "publish.py:settle",  # passed, not published
    "outcomes.py:_reject_candidates",  # inside the transaction that publishes
)
AFTER_PUBLISHED = "publish.py:tidy"


def attempts(world: World, round_id: str, points: tuple[str, ...]) -> list[str]:
    environment = {
        **os.environ,
        "AFTERTURN_DATA_DIR": str(world.settings.data_dir),
        "AFTERTURN_MODEL": world.settings.model,
        "AFTERTURN_ENGINE_URL": world.settings.engine_url,
        "AFTERTURN_LEASE_S": "1.1",
        "AFTERTURN_TRAINER_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        (sys.executable, "-c", ATTEMPTS, round_id, *points),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [line.removeprefix("== ") for line in done.stdout.splitlines() if line.startswith("== ")]


def test_turns_of_a_round_that_is_killed_at_every_step_are_trained_once(world: World) -> None:
    """B16, B32: every attempt burns a number of its own, one is published, and nothing else is left."""
    turn = world.turn("tell me of the sea", 1, ("say it in other words",), seed=1)
    held_out = world.turn("and of the stars", -1, seed=2, held_out=True)
    claimed = world.claim()
    points = (*BEFORE_PUBLISHED, AFTER_PUBLISHED)
    told = attempts(world, claimed.id, points)
    assert told == [*(f"{point} killed" for point in points), "None exit 0"]

    row, live = world.round(claimed.id), world.live()
    assert row.state == "published", row.error
    assert live is not None
    assert [a.name for a in world.adapters() if a.state != "rejected"] == [live.name]
    assert world.turn_row(turn.id).state == "trained"
    assert world.turn_row(held_out.id).state == "judged"
    with world.database.read() as session:
        used = session.exec(select(Training).where(Training.round_id == claimed.id)).all()
    assert [training.turn_id for training in used] == [turn.id]
    folders = {path.name for path in (world.settings.adapter_root / world.agent).iterdir()}
    assert folders - {REJECTED} == {f"v{live.version}"}
    assert verify(world.settings.adapter_root / world.agent / f"v{live.version}").sha256 == live.sha256

    # The next round starts from what is live, clears what the killed one could not, and goes on counting.
    world.turn("once more", 1, ("say it in other words",), seed=3)
    following = world.claim()
    assert attempts(world, following.id, ()) == ["None exit 0"]
    assert world.round(following.id).state == "published", world.round(following.id).error
    newest = world.live()
    assert newest is not None
    assert newest.parent_id == live.id
    folders = {path.name for path in (world.settings.adapter_root / world.agent).iterdir()}
    assert folders - {REJECTED} == {f"v{live.version}", f"v{newest.version}"}
    assert not (world.settings.adapter_root / world.agent / f"v{live.version}" / MOMENTS).exists()
    served = {card.id for card in world.engine.models() if card.id.startswith(f"{world.agent}@")}
    assert served == {live.name, newest.name}
