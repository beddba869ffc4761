"""Who may work on a round, and what stops one who may no longer (B16, on the database's side)."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select
from tests.afterturn_trainer.world import World

from afterturn_core import lifecycle
from afterturn_core.errors import LostLease
from afterturn_core.lifecycle import Lease
from afterturn_core.models import Training
from afterturn_trainer.lease import Cancelled, Heartbeat, Interrupted, stopping_on_signals

PATIENCE_S = 60.0


@pytest.fixture
def held(tiny_folder: Path, tmp_path: Path) -> Iterator[tuple[World, str]]:
    """A claimed round of one turn; no engine is needed to hold it."""
    world = World(tmp_path, tiny_folder, "http://127.0.0.1:9")
    world.store("hello", [5, 6, 7], [8, 2], [-1.0, -1.0], "stop", 1)
    yield world, world.claim().id
    world.close()


def take(world: World, round_id: str, seconds: float, owner: str = "one") -> Lease:
    with world.database.write() as session:
        return lifecycle.acquire_lease(session, round_id, owner, seconds)


def until_stopped(beat: Heartbeat) -> None:
    """Work until `check` says no; a heartbeat that never notices fails the test."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        beat.check()
        time.sleep(0.01)
    raise AssertionError("nobody stopped the work")


def test_a_held_round_stays_held_while_its_heart_beats(held: tuple[World, str]) -> None:
    world, round_id = held
    lease = take(world, round_id, 4.0)
    first = world.round(round_id).lease_expires_at
    assert first is not None
    with Heartbeat(world.database, lease) as beat:
        beat.report(0.3, {"loss": [1.0]}, phase="gating")
        deadline = time.monotonic() + PATIENCE_S
        while world.round(round_id).progress != 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        row = world.round(round_id)
        assert (row.state, row.progress, row.metrics) == ("gating", 0.3, {"loss": [1.0]})
        assert row.lease_expires_at is not None
        assert row.lease_expires_at > first
        with pytest.raises(LostLease):
            take(world, round_id, 4.0, "two")


def test_a_frozen_holder_wakes_up_and_can_do_nothing(held: tuple[World, str]) -> None:
    """B16: the second worker's fence is newer; the first burns, publishes, rejects and fails in vain."""
    world, round_id = held
    frozen = take(world, round_id, 1.0)
    with world.database.write() as session:
        lifecycle.release_lease(session, frozen)  # as if its lease had run out while it was stopped
    second = take(world, round_id, 30.0, "two")
    with world.database.write() as session:
        adapter = lifecycle.burn_version(session, second, world.hash)
    with pytest.raises(LostLease), world.database.write() as session:
        lifecycle.burn_version(session, frozen, world.hash)
    with pytest.raises(LostLease), world.database.write() as session:
        lifecycle.publish(session, frozen, adapter.id, path="x", sha256="x", gate={}, metrics={})
    with pytest.raises(LostLease), world.database.write() as session:
        lifecycle.reject(session, frozen, "no", adapter_id=None, gate={}, metrics={}, backoff_s=0)
    with pytest.raises(LostLease), world.database.write() as session:
        lifecycle.fail(session, frozen, "no")
    assert world.live() is None
    with world.database.write() as session:
        lifecycle.publish(session, second, adapter.id, path="x", sha256="x", gate={}, metrics={})
    live = world.live()
    assert live is not None
    assert live.id == adapter.id
    with world.database.read() as session:
        assert len(session.exec(select(Training).where(Training.round_id == round_id)).all()) == 1


def test_a_lost_lease_stops_the_work(held: tuple[World, str]) -> None:
    world, round_id = held
    lease = take(world, round_id, 2.0)
    with Heartbeat(world.database, lease) as beat:
        with world.database.write() as session:
            lifecycle.release_lease(session, lease)
        take(world, round_id, 60.0, "two")
        with pytest.raises(LostLease):
            until_stopped(beat)


def test_a_cancel_request_stops_the_work(held: tuple[World, str]) -> None:
    world, round_id = held
    lease = take(world, round_id, 2.0)
    with Heartbeat(world.database, lease) as beat:
        with world.database.write() as session:
            lifecycle.request_cancel(session, round_id)
        with pytest.raises(Cancelled):
            until_stopped(beat)


def test_a_cancel_request_that_waited_for_a_holder_is_seen_at_once(held: tuple[World, str]) -> None:
    world, round_id = held
    lease = take(world, round_id, 1000.0)
    with world.database.write() as session:
        lifecycle.request_cancel(session, round_id)
    with Heartbeat(world.database, lease) as beat, pytest.raises(Cancelled):
        beat.check()


def test_a_signal_stops_the_work_in_order(held: tuple[World, str]) -> None:
    world, round_id = held
    lease = take(world, round_id, 1000.0)
    before = signal.getsignal(signal.SIGTERM)
    with Heartbeat(world.database, lease) as beat, stopping_on_signals(beat.interrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"):
            until_stopped(beat)
    assert signal.getsignal(signal.SIGTERM) is before


def test_no_beat_follows_the_end(held: tuple[World, str]) -> None:
    world, round_id = held
    with Heartbeat(world.database, take(world, round_id, 1.1)):
        pass
    assert "heartbeat" not in {thread.name for thread in threading.enumerate()}
