"""The tables. Every state in them changes in `lifecycle/` and nowhere else."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import JSON, Column, ForeignKey, Index, LargeBinary, MetaData, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from .columns import UtcDateTime, utc_now

TurnState = Literal["open", "observed", "judged", "abstained", "excluded", "claimed", "trained"]
RoundState = Literal["claimed", "training", "gating", "published", "rejected", "failed", "cancelled"]
AdapterState = Literal["candidate", "published", "rejected", "retired"]
TurnKind = Literal["main", "side"]
NextStateRole = Literal["tool", "user", "feedback", "outcome"]
FIX = "fix"  # kind of an outcome that says how a call that failed was put right later

RUNNING_ROUNDS: tuple[RoundState, ...] = ("claimed", "training", "gating")

# Named constraints, so that a migration can drop them on both databases.
SQLModel.metadata.naming_convention = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
).naming_convention


def _only(sqlite: str, postgresql: str | None = None) -> dict[str, Any]:
    """What an index holds of a table. A query uses it only if it writes the same words out
    (`columns.written_out`)."""
    return {"sqlite_where": text(sqlite), "postgresql_where": text(postgresql or sqlite)}


def _moment(*, nullable: bool = False, index: bool = False) -> Column[datetime]:
    return Column(UtcDateTime(), nullable=nullable, index=index)


class Agent(SQLModel, table=True):
    """The policy served: a name, its adapters, its keys, its data."""

    __tablename__ = "agents"

    id: str = Field(primary_key=True)
    name: str = Field(unique=True)
    # No foreign key: adapters point here, and SQLite cannot add the other half of a cycle later.
    live_adapter_id: str | None = None
    pinned_adapter_id: str | None = None
    next_version: int = 1
    frozen: bool = False
    accept_any_model: bool = False
    objective: str | None = None
    min_signals: int | None = None
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class Key(SQLModel, table=True):
    """An API key, as a hash; `agent_id` is empty for an admin key."""

    __tablename__ = "keys"

    id: str = Field(primary_key=True)
    prefix: str = Field(unique=True)
    digest: str = Field(unique=True)
    agent_id: str | None = Field(default=None, foreign_key="agents.id", index=True)
    scopes: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())
    expires_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None


class KeyUse(SQLModel, table=True):
    """What a key with limits has used, by slices of time: requests by the second, tokens by ten minutes."""

    __tablename__ = "key_uses"

    key_id: str = Field(sa_column=Column(ForeignKey("keys.id", ondelete="CASCADE"), primary_key=True))
    kind: str = Field(primary_key=True)
    slice: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    amount: int


class Conversation(SQLModel, table=True):
    """A session: the turns of one conversation, scoped to the key that opened it."""

    __tablename__ = "sessions"
    __table_args__ = (
        UniqueConstraint("key_id", "external_id", name="uq_sessions_key_external"),
        Index("ix_sessions_agent", "agent_id", "id"),
        Index("ix_sessions_external", "external_id", **_only("external_id IS NOT NULL")),
    )

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agents.id")
    key_id: str = Field(foreign_key="keys.id")
    external_id: str | None = None
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())
    last_seen_at: datetime = Field(default_factory=utc_now, sa_column=_moment(index=True))
    ended_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    # Set while nothing in the session waits for idleness, so that the sweep looks at few rows.
    settled: bool = Field(default=False, index=True)


class Content(SQLModel, table=True):
    """One message, tool list or block of token ids, stored once whatever number of turns carries it."""

    __tablename__ = "contents"

    digest: str = Field(primary_key=True)
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class HistoryNode(SQLModel, table=True):
    """A history is a chain: the messages before, then one more. Turns share their prefixes."""

    __tablename__ = "history_nodes"
    # Removing a node or a message has to see who else uses it.
    __table_args__ = (
        Index("ix_history_nodes_previous", "previous", **_only("previous IS NOT NULL")),
        Index("ix_history_nodes_content", "content_digest"),
    )

    digest: str = Field(primary_key=True)
    previous: str | None = Field(default=None, foreign_key="history_nodes.digest")
    content_digest: str = Field(foreign_key="contents.digest")
    depth: int


class Turn(SQLModel, table=True):
    """One model call: what was asked, what was sampled, by which adapter."""

    __tablename__ = "turns"
    __table_args__ = (
        Index("ix_turns_agent", "agent_id", "id"),
        Index("ix_turns_agent_state", "agent_id", "state", "id"),
        Index("ix_turns_side", "agent_id", "id", **_only("kind = 'side'")),
        Index("ix_turns_session", "session_id", "id"),
        Index("ix_turns_client_user", "client_user", **_only("client_user IS NOT NULL")),
        Index("ix_turns_link", "key_id", "link_key", "id"),
        Index("ix_turns_prompt", "key_id", "prompt_key", "created_at"),
        Index("ix_turns_reply_key", "key_id", "reply_key", "id", **_only("reply_key IS NOT NULL")),
        # What the next round can use, and what waits for a verdict: few rows, whatever the table holds.
        Index(
            "ix_turns_claimable",
            "agent_id",
            "judged_at",
            "id",
            **_only("state = 'judged' AND held_out IS 0", "state = 'judged' AND held_out IS false"),
        ),
        Index("ix_turns_observed", "observed_at", "id", **_only("state = 'observed'")),
        # Removing a turn or a message has to see who else uses it.
        Index("ix_turns_attempt", "attempt_of", **_only("attempt_of IS NOT NULL")),
        Index("ix_turns_prompt_base", "prompt_base_id", **_only("prompt_base_id IS NOT NULL")),
        Index("ix_turns_prompt_head", "prompt_head", **_only("prompt_head IS NOT NULL")),
        Index("ix_turns_history", "history_digest"),
        Index("ix_turns_reply", "reply_digest"),
        Index("ix_turns_tools", "tools_digest", **_only("tools_digest IS NOT NULL")),
    )

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agents.id")
    key_id: str = Field(foreign_key="keys.id")
    session_id: str = Field(foreign_key="sessions.id")
    parent_id: str | None = Field(default=None, foreign_key="turns.id", index=True)
    attempt_of: str | None = Field(default=None, foreign_key="turns.id")
    response_id: str = Field(index=True)
    choice_index: int = 0
    kind: str
    kind_reason: str
    state: str
    excluded_reason: str | None = None
    protocol: str
    adapter: str
    adapter_version: int | None = None
    model_hash: str
    client: str = ""
    # Whom the client was speaking with, in the client's own words.
    client_user: str | None = None
    created_at: datetime = Field(sa_column=_moment())
    completed_at: datetime = Field(default_factory=utc_now, sa_column=_moment())
    finish_reason: str | None = None

    # Normalised history up to and including the reply (`link_key`) or the prompt (`prompt_key`).
    link_key: str
    prompt_key: str
    # The reply by itself: its call ids, or its words. Finds it where what came before was rewritten.
    reply_key: str | None = None
    history_digest: str | None = Field(default=None, foreign_key="history_nodes.digest")
    tools_digest: str | None = Field(default=None, foreign_key="contents.digest")
    reply_digest: str = Field(foreign_key="contents.digest")
    sampling: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))

    # Prompt ids as a difference: the first `prompt_shared` ids of base's prompt + reply, or of the blocks
    # that end in `prompt_head`; then the tail.
    prompt_base_id: str | None = Field(default=None, foreign_key="turns.id")
    prompt_head: str | None = Field(default=None, foreign_key="history_nodes.digest")
    prompt_shared: int = 0
    prompt_depth: int = 0
    prompt_tail: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    token_ids: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    logprobs: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    prompt_tokens: int
    completion_tokens: int

    held_out: bool = False
    signal_revision: int = 0
    round_id: str | None = Field(default=None, index=True)
    times_rejected: int = 0
    claimable_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    observed_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    judged_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


class OriginalRequest(SQLModel, table=True):
    """What a client sent in a protocol other than chat, whose messages are the turn's own: the conversation's
    items as a chain, everything else of the body but the tools by its content."""

    __tablename__ = "original_requests"

    turn_id: str = Field(
        sa_column=Column(ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    items_digest: str | None = Field(default=None, foreign_key="history_nodes.digest", index=True)
    fields_digest: str = Field(foreign_key="contents.digest", index=True)


class NextState(SQLModel, table=True):
    """One piece of what came after a turn; a candidate until the conversation goes on from it."""

    __tablename__ = "next_states"
    __table_args__ = (
        UniqueConstraint("turn_id", "source_id", "position", name="uq_next_states_source"),
        Index("ix_next_states_source", "source_id"),
        Index("ix_next_states_waiting", "turn_id", **_only("believed IS 0", "believed IS false")),
    )

    id: str = Field(primary_key=True)
    turn_id: str = Field(foreign_key="turns.id")
    # The turn whose request carried it, or the feedback event.
    source_id: str
    position: int = 0
    role: str
    text: str
    believed: bool = False
    withdrawn: bool = False
    kind: str | None = None
    value: float | None = None
    # How much an outcome counts here: 1 for the session's last turn, less the further back.
    weight: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class Feedback(SQLModel, table=True):
    """An explicit event, exactly as sent."""

    __tablename__ = "feedback"
    __table_args__ = (UniqueConstraint("agent_id", "idempotency_key", name="uq_feedback_agent_idempotency"),)

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agents.id", index=True)
    turn_id: str = Field(foreign_key="turns.id", index=True)
    session_id: str = Field(foreign_key="sessions.id", index=True)
    kind: str
    value: float | None = None
    text: str | None = None
    source: str | None = None
    idempotency_key: str | None = None
    body_digest: str
    occurred_at: datetime = Field(sa_column=_moment())
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())
    withdrawn_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


class Signal(SQLModel, table=True):
    """Verdict and hints of one turn; what comes later makes a new revision."""

    __tablename__ = "signals"
    __table_args__ = (
        UniqueConstraint("turn_id", "revision", name="uq_signals_turn_revision"),
        Index("ix_signals_agent", "agent_id", "id"),
        Index("ix_signals_source", "source", "id"),
    )

    id: str = Field(primary_key=True)
    # The turn's; empty when code from before this column wrote the row.
    agent_id: str | None = Field(default=None, foreign_key="agents.id")
    turn_id: str = Field(foreign_key="turns.id")
    revision: int
    verdict: int | None = None
    # Of the verdict in training: below 1 where an outcome decided it and the turn lies further back.
    weight: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    source: str
    votes: list[int | None] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    rationale: str = ""
    hints: list[dict[str, str]] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    flags: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    disagreement: bool = False
    # Model and prompt version of a judge that is a model.
    judged_by: str | None = None
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class JudgeCall(SQLModel, table=True):
    """One vote of a judge model: kept so that asking again costs nothing, and counted for the budget."""

    __tablename__ = "judge_calls"
    __table_args__ = (Index("ix_judge_calls_spent", "agent_id", "asked_at"),)

    # Digest of evidence, prompt version, model and number of the vote.
    key: str = Field(primary_key=True)
    agent_id: str | None = Field(default=None, foreign_key="agents.id")
    turn_id: str | None = Field(
        default=None,
        sa_column=Column(ForeignKey("turns.id", ondelete="CASCADE"), nullable=True, index=True),
    )
    model: str
    # Empty if the model's text could not be read.
    answer: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    asked_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class Adapter(SQLModel, table=True):
    """An immutable, checksummed, numbered LoRA. Its number is burned when the row is made."""

    __tablename__ = "adapters"
    __table_args__ = (
        UniqueConstraint("agent_id", "version", name="uq_adapters_agent_version"),
        Index("ix_adapters_agent", "agent_id", "id"),
        Index("ix_adapters_state", "state", "id"),
    )

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agents.id")
    version: int
    name: str = Field(unique=True)
    parent_id: str | None = Field(default=None, foreign_key="adapters.id", index=True)
    round_id: str | None = Field(default=None, index=True)
    state: str
    marks: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    sha256: str | None = None
    model_hash: str
    path: str | None = None
    gate: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    # `round` or `import`; the name an imported one had where it came from.
    origin: str = Field(default="round", sa_column_kwargs={"server_default": "round"})
    imported_as: str | None = None
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class Round(SQLModel, table=True):
    """One training run over a fixed set of turns."""

    __tablename__ = "rounds"
    __table_args__ = (
        # Never two rounds of one agent at once, by constraint.
        Index(
            "uq_rounds_running",
            "agent_id",
            unique=True,
            sqlite_where=text("state IN ('claimed', 'training', 'gating')"),
            postgresql_where=text("state IN ('claimed', 'training', 'gating')"),
        ),
        Index("ix_rounds_agent", "agent_id", "id"),
        Index("ix_rounds_state", "state", "id"),
    )

    id: str = Field(primary_key=True)
    agent_id: str = Field(foreign_key="agents.id")
    state: str
    objective: str
    parent_adapter_id: str | None = None
    adapter_id: str | None = None
    turn_ids: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    settings: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    metrics: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    gate: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    progress: float = 0.0
    error: str | None = None
    cancel_requested: bool = False
    fence: int = 0
    lease_owner: str | None = None
    lease_expires_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    created_at: datetime = Field(default_factory=utc_now, sa_column=_moment())
    started_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    finished_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


class RoundTurn(SQLModel, table=True):
    """Which signal of which turn a round uses."""

    __tablename__ = "round_turns"

    round_id: str = Field(sa_column=Column(ForeignKey("rounds.id"), primary_key=True))
    turn_id: str = Field(sa_column=Column(ForeignKey("turns.id"), primary_key=True, index=True))
    signal_id: str = Field(sa_column=Column(ForeignKey("signals.id"), nullable=False, index=True))


class Training(SQLModel, table=True):
    """A signal that a published round consumed: at most one round ever, by primary key."""

    __tablename__ = "trainings"

    signal_id: str = Field(sa_column=Column(ForeignKey("signals.id"), primary_key=True))
    round_id: str = Field(sa_column=Column(ForeignKey("rounds.id"), nullable=False, index=True))
    turn_id: str = Field(sa_column=Column(ForeignKey("turns.id"), nullable=False, index=True))


class EngineModel(SQLModel, table=True):
    """The base model behind the engine as last seen: name, context and hash."""

    __tablename__ = "engine_models"

    model_hash: str = Field(primary_key=True)
    name: str
    max_model_len: int | None = None
    seen_at: datetime = Field(default_factory=utc_now, sa_column=_moment())


class SchemaRule(SQLModel, table=True):
    """One row, written by the migrations: the oldest revision whose code may use this schema."""

    __tablename__ = "schema_rules"

    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    oldest_code: str
