"""A round that trains nothing and takes as long as the test likes, with the real lease around it.

    python -m tests.services.stub_round ROUND_ID

goes on to publish once the folder STUB_FOLDER holds a file `go-N`, N being the fence of its lease, and
notes what happens to it in files there: `began-N` holds its process id, `lost-N`, `published-N`.
"""

import os
import sys
import time
from pathlib import Path

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import LostLease
from afterturn_core.lifecycle import Lease
from afterturn_core.settings import Settings, load_settings
from afterturn_trainer.lease import Heartbeat, Interrupted, stopping_on_signals
from afterturn_trainer.round_exit import owner_of


def stub_round(settings: Settings, round_id: str, folder: Path) -> int:
    """Hold, wait, burn a version, publish; returns the exit code that `run_round` would."""
    database = Database(settings.effective_database_url)
    try:
        with database.write() as session:
            lease = lifecycle.acquire_lease(session, round_id, owner_of(os.getpid()), settings.lease_s)
    except LostLease:
        database.close()
        return 0
    try:
        with Heartbeat(database, lease) as beat, stopping_on_signals(beat.interrupt):
            (folder / f"began-{lease.fence}").write_text(str(os.getpid()))
            while not (folder / f"go-{lease.fence}").exists():
                beat.check()
                time.sleep(0.02)
            publish(database, lease)
        (folder / f"published-{lease.fence}").touch()
    except LostLease:
        (folder / f"lost-{lease.fence}").touch()
    except Interrupted:
        with database.write() as session:
            lifecycle.release_lease(session, lease)
    finally:
        database.close()
    return 0


def publish(database: Database, lease: Lease) -> None:
    """A version of the agent, in the two transactions of a real round."""
    with database.write() as session:
        adapter = lifecycle.burn_version(session, lease, "0" * 16)
    with database.write() as session:
        lifecycle.publish(session, lease, adapter.id, path="x", sha256="x", gate={}, metrics={})


if __name__ == "__main__":
    sys.exit(stub_round(load_settings(), sys.argv[1], Path(os.environ["STUB_FOLDER"])))
