"""Client for an Afterturn server: feedback, sessions, rounds and adapters."""

from afterturn.adapters import Adapter
from afterturn.agents import Agent
from afterturn.client import Afterturn, AsyncAfterturn
from afterturn.delivery import Flushed, Receipt, RejectedEvent
from afterturn.errors import (
    AfterturnError,
    BadRequest,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    MalformedReply,
    MissingExtra,
    MissingKey,
    NotFound,
    OutboxFull,
    RequestTimedOut,
    ServerError,
    StatusError,
    TooManyRequests,
    Unauthorized,
    WaitTimedOut,
)
from afterturn.feedback import FeedbackEvent
from afterturn.install import AgentStats, EngineStats, Stats
from afterturn.keys import Key, NewKey
from afterturn.listing import AsyncListing, Listing, Page
from afterturn.outbox import KeptEvent
from afterturn.rounds import Round
from afterturn.session import AsyncSession, Session
from afterturn.sessions import SessionRecord
from afterturn.turns import Hint, NextState, Signal, Turn, TurnRequest
from afterturn.wire import JSON, JSONObject

__all__ = [
    "JSON",
    "Adapter",
    "Afterturn",
    "AfterturnError",
    "Agent",
    "AgentStats",
    "AsyncAfterturn",
    "AsyncListing",
    "AsyncSession",
    "BadRequest",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "EngineStats",
    "FeedbackEvent",
    "Flushed",
    "Forbidden",
    "Hint",
    "JSONObject",
    "KeptEvent",
    "Key",
    "Listing",
    "MalformedReply",
    "MissingExtra",
    "MissingKey",
    "NewKey",
    "NextState",
    "NotFound",
    "OutboxFull",
    "Page",
    "Receipt",
    "RejectedEvent",
    "RequestTimedOut",
    "Round",
    "ServerError",
    "Session",
    "SessionRecord",
    "Signal",
    "Stats",
    "StatusError",
    "TooManyRequests",
    "Turn",
    "TurnRequest",
    "Unauthorized",
    "WaitTimedOut",
]
