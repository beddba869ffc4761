"""Space is bounded: which adapters stay on the disk, and which keep their optimiser's moments."""

import shutil
from pathlib import Path

import structlog
from sqlalchemy import update
from sqlmodel import Session, col, select

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.models import Adapter, Agent
from afterturn_trainer.adapter_folder import forget_moments

log = structlog.get_logger()
KEPT_VERSIONS = 10  # on disk, to roll back to; the live and the pinned one are kept besides


def free_space(database: Database, root: Path, agent_id: str, *, keep: int = KEPT_VERSIONS) -> None:
    """Retire all but the newest `keep` adapters of an agent and remove their folders; moments stay with the
    live one only. What a killed trainer left undone is done by the next one.

    `root` is what relative paths start from.
    """
    with database.write() as session:
        lifecycle.retire_old(session, agent_id, keep)
    with database.read() as session:
        retired = _folders(session, agent_id, "retired")
        published = _folders(session, agent_id, "published")
        live = session.get_one(Agent, agent_id).live_adapter_id
    gone = [adapter_id for adapter_id, path in retired.items() if _removed(root / path)]
    if gone:
        with database.write() as session:
            session.execute(update(Adapter).where(col(Adapter.id).in_(gone)).values(path=None))
    for adapter_id, path in published.items():
        if adapter_id != live:
            forget_moments(root / path)


def _folders(session: Session, agent_id: str, state: str) -> dict[str, str]:
    """Folders of an agent's adapters by id; what lies in a store of another kind has none."""
    statement = select(Adapter.id, Adapter.path).where(
        Adapter.agent_id == agent_id, Adapter.state == state, col(Adapter.path).is_not(None)
    )
    return {
        adapter_id: path
        for adapter_id, path in session.exec(statement).all()
        if path is not None and "://" not in path
    }


def _removed(folder: Path) -> bool:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        log.warning("old adapter not removed", folder=folder.name, error=error.strerror)
        return False
    return True
