"""Space is bounded: what is kept of old adapters, and what is not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.afterturn_trainer.world import World
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.adapter_files import WEIGHTS
from afterturn_core.errors import Conflict
from afterturn_core.ids import new_id
from afterturn_core.models import Adapter, Agent
from afterturn_core.settings import Settings
from afterturn_trainer.adapter_folder import Manifest
from afterturn_trainer.gate import GateReport
from afterturn_trainer.lease import Cancelled
from afterturn_trainer.metrics import RoundMetrics
from afterturn_trainer.publish import Candidate, settle


@pytest.fixture
def world(tiny_folder: Path, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    yield world
    world.close()


def test_old_adapters_are_retired_but_the_live_and_the_pinned_one(world: World) -> None:
    with world.database.write() as session:
        rows = [
            Adapter(
                id=new_id("adapter"),
                agent_id=world.agent_id,
                version=version,
                name=f"{world.agent}@v{version}",
                state="rejected" if version == 3 else "published",
                model_hash="h",
                path=f"v{version}",
            )
            for version in range(1, 8)
        ]
        session.add_all(rows)
        agent = session.get_one(Agent, world.agent_id)
        agent.live_adapter_id, agent.pinned_adapter_id = rows[0].id, rows[3].id
        session.add(agent)
    with world.database.write() as session:
        # Published: 7 6 5 4 2 1. The newest two stay, 4 is pinned, 1 is live.
        assert lifecycle.retire_old(session, world.agent_id, 2) == ["v5", "v2"]
    assert {row.version for row in world.adapters() if row.state == "retired"} == {5, 2}
    with world.database.write() as session:
        assert lifecycle.retire_old(session, world.agent_id, 2) == []
    with pytest.raises(Conflict, match="retired"), world.database.write() as session:
        lifecycle.promote(session, session.get_one(Adapter, rows[4].id))


def test_a_round_cancelled_after_the_last_look_is_cancelled_and_not_rejected(tmp_path: Path) -> None:
    stored = StoredTurns(f"sqlite:///{tmp_path / 'afterturn.db'}")
    turn_id = stored.judged()
    with stored.database.write() as session:
        plan = lifecycle.RoundPlan(objective="hybrid", max_turns=8)
        claimed = lifecycle.claim_round(session, session.get_one(Agent, stored.agent_id), plan)
        lease = lifecycle.acquire_lease(session, claimed.id, "me", 60)
        row = lifecycle.burn_version(session, lease, "h")
        lifecycle.request_cancel(session, claimed.id)
    manifest = Manifest(row.name, None, "h", claimed.id, "", {WEIGHTS: "0"}, {})
    waiting = Candidate(row.id, row.name, Path("nowhere"), manifest)
    with pytest.raises(Cancelled):
        settle(stored.database, lease, waiting, GateReport(True, ()), RoundMetrics(), Settings())
    assert not waiting.published
    with stored.database.write() as session:
        lifecycle.cancel(session, lease)
    assert stored.load(turn_id).times_rejected == 0
    stored.database.close()
