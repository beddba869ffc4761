"""A disk that is full or read-only fails the round with that reason, and nothing else."""

from tests.afterturn_trainer.world import World
from tests.small_disk import SmallDisk, small_disk

from afterturn_trainer.run import run_round


def fail_for(world: World, disk: SmallDisk, reason: str) -> None:
    turn = world.turn("tell me of the sea", 1, seed=1)
    claimed = world.claim("rl")
    assert run_round(claimed.id, world.settings) == 1
    row = world.round(claimed.id)
    assert (row.state, reason in (row.error or "")) == ("failed", True), row.error
    assert world.live() is None
    assert world.turn_row(turn.id).state == "judged"
    assert [path.name for path in disk.folder.rglob("*") if path.is_file() and path.name != ".filler"] == []


def test_a_full_disk_fails_the_round_and_leaves_no_folder(world: World) -> None:
    with small_disk(world.settings.adapter_root, 512) as disk:
        disk.fill()
        fail_for(world, disk, "No space left on device")
        disk.free()


def test_an_adapter_that_does_not_fit_leaves_no_half_of_it(world: World) -> None:
    with small_disk(world.settings.adapter_root, 12) as disk:
        fail_for(world, disk, "No space left on device")


def test_a_read_only_disk_fails_the_round_and_the_next_one_publishes(world: World) -> None:
    with small_disk(world.settings.adapter_root, 64 * 1024) as disk:
        disk.remount("ro")
        fail_for(world, disk, "Read-only file system")
        disk.remount("rw")
        claimed = world.claim("rl")
        assert run_round(claimed.id, world.settings) == 0
        assert world.round(claimed.id).state == "published", world.round(claimed.id).error
