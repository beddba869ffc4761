"""A candidate's way to the engines and into the live row, or out of the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import Conflict, LostLease
from afterturn_core.lifecycle import Lease
from afterturn_core.models import Adapter
from afterturn_core.settings import Settings
from afterturn_trainer.adapter_folder import Manifest, folder_of, put_aside, write_adapter
from afterturn_trainer.gate import GateReport
from afterturn_trainer.lease import Cancelled
from afterturn_trainer.load_turns import RoundInput
from afterturn_trainer.metrics import RoundMetrics
from afterturn_trainer.replicas import Replicas
from afterturn_trainer.space import free_space
from afterturn_trainer.train import Trained

log = structlog.get_logger()
LOADED_VERSIONS = 3  # the live adapter and what its last two predecessors still answer


@dataclass
class Candidate:
    """An adapter on disk and on every engine, not live yet."""

    id: str
    name: str
    folder: Path
    manifest: Manifest
    published: bool = field(default=False)


@contextmanager
def candidate(
    trained: Trained, row: Adapter, taken: RoundInput, settings: Settings, replicas: Replicas
) -> Iterator[Candidate]:
    """Write the folder and load it for the length of the block; unless it is published there, it is
    unloaded and put aside afterwards, whatever ended the block."""
    folder = folder_of(settings.adapter_root, taken.agent, row.version)
    manifest = write_adapter(
        folder,
        trained.policy,
        trained.moments,
        name=row.name,
        parent=None if taken.parent is None else taken.parent.name,
        model_hash=trained.model_hash,
        round_id=taken.round_id,
    )
    waiting = Candidate(row.id, row.name, folder, manifest)
    try:
        replicas.load(row.name, folder)
        yield waiting
    finally:
        if not waiting.published:
            replicas.unload(row.name)
            put_aside(folder)


def settle(
    database: Database,
    lease: Lease,
    waiting: Candidate,
    report: GateReport,
    metrics: RoundMetrics,
    settings: Settings,
) -> bool:
    """Publish or reject in one transaction; returns whether the candidate is live now.

    A rollback or a promotion made while the round ran wins over its candidate.

    Raises:
        LostLease: another worker holds the round; nothing was changed.
        Cancelled: somebody asked for that since the last look; nothing was changed.
    """
    gate = report.as_json()
    reason = "; ".join(report.reasons)
    if report.passed:
        try:
            with database.write() as session:
                lifecycle.publish(
                    session,
                    lease,
                    waiting.id,
                    path=str(waiting.folder),
                    sha256=waiting.manifest.sha256,
                    gate=gate,
                    metrics=metrics.as_json(),
                )
            waiting.published = True
            return True
        except LostLease:
            raise
        except SQLAlchemyError:
            # The commit may have happened and only its answer got lost: never move what may be live.
            waiting.published = True
            raise
        except Conflict as conflict:
            if conflict.code == "cancelled":
                raise Cancelled from None
            reason = conflict.message
            gate = {**gate, "passed": False, "reasons": [reason]}
    with database.write() as session:
        lifecycle.reject(
            session,
            lease,
            reason,
            adapter_id=waiting.id,
            gate=gate,
            metrics=metrics.as_json(),
            backoff_s=settings.round_backoff_s,
        )
    return False


def tidy(
    database: Database, taken: RoundInput, waiting: Candidate, replicas: Replicas, settings: Settings
) -> None:
    """After a publication: old versions leave the engines and, later, the disk; only the live one keeps its
    moments."""
    keep = {waiting.name} | ({taken.pinned} if taken.pinned is not None else set())
    replicas.prune(taken.agent, LOADED_VERSIONS, frozenset(keep))
    free_space(database, settings.adapter_root, taken.agent_id)
