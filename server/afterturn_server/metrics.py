"""What Prometheus sees: counts and durations, never a text or a key."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from sqlalchemy import QueuePool

from afterturn_core.database import Database

from .outage import Outage

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The instruments of one gateway process, in a registry of their own."""

    def __init__(self, database: Database, outage: Outage) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        self.connections = Gauge(
            "afterturn_database_connections",
            "Database connections in use at this moment",
            registry=self.registry,
        )
        pool = database.engine.pool
        if isinstance(pool, QueuePool):
            self.connections.set_function(pool.checkedout)
        self.away = Gauge(
            "afterturn_database_away", "1 while the database cannot be used", registry=self.registry
        )
        self.away.set_function(lambda: float(outage.away))
        self.unlogged = Counter(
            "afterturn_unlogged", "Replies given without a record", registry=self.registry
        )
        self.requests = Counter(
            "afterturn_requests",
            "Inference requests by status",
            ("protocol", "status"),
            registry=self.registry,
        )
        self.turns = Counter("afterturn_turns", "Recorded turns", ("kind", "finish"), registry=self.registry)
        self.tokens = Counter(
            "afterturn_tokens", "Tokens read and sampled", ("kind",), registry=self.registry
        )
        self.in_flight = Gauge(
            "afterturn_in_flight", "Inference requests being answered", registry=self.registry
        )
        self.seconds = Histogram(
            "afterturn_request_seconds", "Whole request", buckets=_SECONDS, registry=self.registry
        )
        self.first_chunk = Histogram(
            "afterturn_first_chunk_seconds",
            "From a request to the first chunk of its stream",
            buckets=_SECONDS,
            registry=self.registry,
        )
