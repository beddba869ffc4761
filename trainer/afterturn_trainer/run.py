"""One round from claim to publication: the effects, in order, over the parts that decide."""

import os
import socket
import time

import structlog
import torch

from afterturn_core import lifecycle
from afterturn_core.database import Database
from afterturn_core.errors import AfterturnError, LostLease
from afterturn_core.lifecycle import Lease
from afterturn_core.settings import Settings
from afterturn_trainer.faults import LearningFault
from afterturn_trainer.gate import GateReport, judge_bounded
from afterturn_trainer.lease import Cancelled, Heartbeat, Interrupted, stopping_on_signals
from afterturn_trainer.leftovers import clear_leftovers
from afterturn_trainer.load_turns import RoundInput, load_round
from afterturn_trainer.metrics import RoundMetrics
from afterturn_trainer.publish import Candidate, candidate, settle, tidy
from afterturn_trainer.replicas import Replicas, open_replicas
from afterturn_trainer.train import MEMORY, TRAINED, Trained, asking_at_once, train
from afterturn_trainer.try_out import Served, TryOut, try_out

log = structlog.get_logger()
DONE, FAILED = 0, 1


def run_round(round_id: str, settings: Settings) -> int:
    """Work on a round; returns 0 when it is over or somebody else's, 1 when it failed.

    A round that another worker holds is left alone, so starting one twice does no harm.
    """
    torch.set_num_threads(settings.trainer_threads or os.cpu_count() or 1)  # niced: serving comes first
    database = Database(settings.effective_database_url)
    try:
        with database.write() as session:
            lease = lifecycle.acquire_lease(
                session, round_id, f"{socket.gethostname()}:{os.getpid()}", settings.lease_s
            )
    except LostLease as error:
        log.info("round not taken", round=round_id, reason=error.message)
        database.close()
        return DONE
    metrics = RoundMetrics()
    try:
        with Heartbeat(database, lease) as beat, stopping_on_signals(beat.interrupt):
            _work(database, lease, beat, metrics, settings)
        return DONE
    except LostLease as error:
        log.warning("round lost", round=round_id, reason=error.message)
        return DONE
    except Interrupted as reason:
        log.warning("round handed back", round=round_id, reason=str(reason))
        with database.write() as session:
            lifecycle.release_lease(session, lease)
        return DONE
    except Cancelled:
        log.info("round cancelled", round=round_id)
        with database.write() as session:
            lifecycle.cancel(session, lease)
        return DONE
    except (AfterturnError, LearningFault) as error:
        log.warning("round failed", round=round_id, reason=str(error))
        return _fail(database, lease, str(error), metrics)
    except Exception as error:  # whatever it was, the turns go back and people can read why
        log.exception("round failed", round=round_id)
        return _fail(database, lease, f"{type(error).__name__}: {error}", metrics)
    finally:
        database.close()


def _work(
    database: Database, lease: Lease, beat: Heartbeat, metrics: RoundMetrics, settings: Settings
) -> None:
    with database.read() as session:
        taken = load_round(session, lease.round_id)
    with open_replicas(settings) as replicas:
        clear_leftovers(database, taken, settings.adapter_root, replicas)
        trained = train(taken, settings, len(taken.earlier_verdicts), replicas.first, beat, metrics)
        with database.write() as session:
            row = lifecycle.burn_version(session, lease, trained.model_hash)
        with candidate(trained, row, taken, settings, replicas) as waiting:
            report = _gate(taken, trained, waiting, replicas, beat, metrics, settings)
            beat.beat()
            beat.check()
            if settle(database, lease, waiting, report, metrics, settings):
                tidy(database, taken, waiting, replicas, settings)
        log.info("round over", round=lease.round_id, adapter=row.name, published=waiting.published)


def _gate(
    taken: RoundInput,
    trained: Trained,
    waiting: Candidate,
    replicas: Replicas,
    beat: Heartbeat,
    metrics: RoundMetrics,
    settings: Settings,
) -> GateReport:
    started = time.monotonic()
    beat.report(TRAINED, phase="gating")
    live = base = Served(replicas.first.base_model().id, "base")
    if taken.parent is not None:
        live = Served(taken.parent.name, taken.parent.sha256)
        replicas.load(live.name, taken.parent.folder)  # an engine that restarted has forgotten it
    trial = TryOut(
        client=replicas.first,
        model_hash=trained.model_hash,
        base=base,
        live=live,
        candidate=Served(waiting.name, waiting.manifest.sha256),
        memory=settings.data_dir / MEMORY,
        concurrency=asking_at_once(settings),
        noise=trained.noise,
    )
    report = try_out(
        trial,
        judge_bounded(taken.sources, taken.source_share),
        trained.own,
        trained.held_out,
        lambda share: beat.report(TRAINED + (1 - TRAINED) * share),
    )
    metrics.seconds["gate"] = round(time.monotonic() - started, 2)
    return report


def _fail(database: Database, lease: Lease, reason: str, metrics: RoundMetrics) -> int:
    try:
        with database.write() as session:
            lifecycle.fail(session, lease, reason, metrics.as_json())
    except LostLease:
        log.warning("round lost", round=lease.round_id)
    return FAILED
