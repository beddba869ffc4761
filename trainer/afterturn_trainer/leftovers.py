"""What killed attempts left on disk and on the engines: removed by whoever holds the agent's round next."""

import shutil
from pathlib import Path

import structlog
from sqlmodel import col, select

from afterturn_core.database import Database
from afterturn_core.models import Adapter
from afterturn_trainer.adapter_folder import clear_drafts, folder_of, forget_moments
from afterturn_trainer.load_turns import RoundInput
from afterturn_trainer.replicas import Replicas

log = structlog.get_logger()


def clear_leftovers(database: Database, taken: RoundInput, root: Path, replicas: Replicas) -> None:
    """Remove drafts, folders of candidates that were never published and of retired adapters, and moments of
    all but the live adapter.

    Only the holder of the agent's round may: nobody else writes the agent's folder then. What has no row, or
    was not made by a round, is somebody else's and stays.
    """
    clear_drafts(root, taken.agent)
    with database.read() as session:
        rows = session.exec(
            select(Adapter).where(Adapter.agent_id == taken.agent_id, col(Adapter.round_id).is_not(None))
        ).all()
    for row in rows:
        folder = folder_of(root, taken.agent, row.version)
        if not folder.is_dir():
            continue
        if row.state == "published":
            if taken.parent is None or row.id != taken.parent.id:
                forget_moments(folder)
            continue
        replicas.unload(row.name)
        shutil.rmtree(folder)
        log.warning("leftover removed", adapter=row.name, state=row.state)
