"""Of old adapters the files are really gone, and what may be served again is really there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select
from tests.afterturn_trainer.world import World

from afterturn_core.ids import new_id
from afterturn_core.models import Adapter, Agent
from afterturn_trainer.adapter_folder import MOMENTS
from afterturn_trainer.space import free_space


@pytest.fixture
def world(tiny_folder: Path, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    yield world
    world.close()


def publish(world: World, root: Path, versions: int, live: int, pinned: int | None = None) -> None:
    """Adapters with folders and moments; one live, one pinned."""
    with world.database.write() as session:
        agent = session.get_one(Agent, world.agent_id)
        for version in range(1, versions + 1):
            folder = root / world.agent / f"v{version}"
            folder.mkdir(parents=True)
            for name in ("adapter_model.safetensors", MOMENTS):
                (folder / name).write_bytes(b"weights")
            adapter = Adapter(
                id=new_id("adapter"),
                agent_id=world.agent_id,
                version=version,
                name=f"{world.agent}@v{version}",
                state="published",
                model_hash="h",
                path=str(folder),
            )
            session.add(adapter)
            if version == live:
                agent.live_adapter_id = adapter.id
            if version == pinned:
                agent.pinned_adapter_id = adapter.id


def on_disk(world: World, root: Path) -> set[int]:
    return {int(folder.name[1:]) for folder in (root / world.agent).iterdir()}


def with_moments(world: World, root: Path) -> set[int]:
    return {int(file.parent.name[1:]) for file in (root / world.agent).glob(f"*/{MOMENTS}")}


def test_the_newest_the_live_and_the_pinned_stay_and_the_rest_is_gone(world: World, tmp_path: Path) -> None:
    root = tmp_path / "adapters"
    publish(world, root, versions=9, live=2, pinned=4)
    free_space(world.database, root, world.agent_id, keep=3)
    assert on_disk(world, root) == {2, 4, 7, 8, 9}
    assert with_moments(world, root) == {2}
    with world.database.read() as session:
        rows = session.exec(select(Adapter)).all()
    assert {row.version for row in rows if row.state == "retired"} == {1, 3, 5, 6}
    assert all((row.path is None) == (row.state == "retired") for row in rows)


def test_what_a_killed_trainer_left_is_removed_by_the_next(world: World, tmp_path: Path) -> None:
    root = tmp_path / "adapters"
    publish(world, root, versions=5, live=5)
    with world.database.write() as session:
        for row in session.exec(select(Adapter).where(Adapter.version < 3)).all():
            row.state = "retired"  # and then it was killed, with one folder half removed
    (root / world.agent / "v1" / MOMENTS).unlink()
    free_space(world.database, root, world.agent_id, keep=10)
    assert on_disk(world, root) == {3, 4, 5}
    with world.database.read() as session:
        assert session.exec(select(Adapter.version).where(Adapter.path == None)).all() == [1, 2]


def test_a_folder_that_is_gone_already_is_no_obstacle(world: World, tmp_path: Path) -> None:
    root = tmp_path / "adapters"
    publish(world, root, versions=3, live=3)
    for file in (root / world.agent / "v1").iterdir():
        file.unlink()
    (root / world.agent / "v1").rmdir()
    free_space(world.database, root, world.agent_id, keep=1)
    assert on_disk(world, root) == {3}
    free_space(world.database, root, world.agent_id, keep=1)
