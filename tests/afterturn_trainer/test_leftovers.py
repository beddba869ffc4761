"""What killed attempts left behind goes when the next round begins, and nothing else does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.afterturn_trainer.world import World

from afterturn_core.ids import new_id
from afterturn_core.models import Adapter, Agent
from afterturn_trainer.adapter_folder import MOMENTS, folder_of
from afterturn_trainer.leftovers import clear_leftovers
from afterturn_trainer.load_turns import load_round
from afterturn_trainer.replicas import Replicas


@pytest.fixture
def world(tiny_folder: Path, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    yield world
    world.close()


def test_only_what_nobody_serves_or_resumes_is_removed(world: World) -> None:
    root = world.settings.adapter_root
    states = ["retired", "published", "rejected", "candidate", "published", "imported", "nobody's"]
    with world.database.write() as session:
        for version, state in enumerate(states, start=1):
            folder = folder_of(root, world.agent, version)
            folder.mkdir(parents=True)
            (folder / MOMENTS).write_bytes(b"moments")
            if state == "nobody's":
                continue
            row = Adapter(
                id=new_id("adapter"),
                agent_id=world.agent_id,
                version=version,
                name=f"{world.agent}@v{version}",
                round_id=None if state == "imported" else "round_1",
                state="candidate" if state == "imported" else state,
                model_hash=world.hash,
                path=str(folder),
                sha256="x",
            )
            session.add(row)
            if version == 5:
                agent = session.get_one(Agent, world.agent_id)
                agent.live_adapter_id = row.id
                session.add(agent)
    (root / world.agent / ".v8.abcd.tmp").mkdir()
    world.store("hello", [5, 6, 7], [8, 2], [-1.0, -1.0], "stop", 1)
    claimed = world.claim()
    with world.database.read() as session:
        taken = load_round(session, claimed.id)

    clear_leftovers(world.database, taken, root, Replicas(()))

    left = {path.name: (path / MOMENTS).exists() for path in (root / world.agent).iterdir()}
    # v2 is published and not live: served if someone goes back to it, never continued from its moments.
    assert left == {"v2": False, "v5": True, "v6": True, "v7": True}
