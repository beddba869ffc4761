"""indexes for every listing and every removal, blocks of prompt ids, signals by agent"""

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
# Older code would read a prompt that begins with blocks without them.
oldest_code = "0003"

BATCH = 500

# name, table, columns, which rows (SQLite, PostgreSQL where it differs)
ADDED = (
    ("ix_turns_agent", "turns", ["agent_id", "id"], None, None),
    ("ix_turns_side", "turns", ["agent_id", "id"], "kind = 'side'", None),
    (
        "ix_turns_claimable",
        "turns",
        ["agent_id", "judged_at", "id"],
        "state = 'judged' AND held_out IS 0",
        "state = 'judged' AND held_out IS false",
    ),
    ("ix_turns_observed", "turns", ["observed_at", "id"], "state = 'observed'", None),
    ("ix_turns_attempt", "turns", ["attempt_of"], "attempt_of IS NOT NULL", None),
    ("ix_turns_prompt_base", "turns", ["prompt_base_id"], "prompt_base_id IS NOT NULL", None),
    ("ix_turns_prompt_head", "turns", ["prompt_head"], "prompt_head IS NOT NULL", None),
    ("ix_turns_history", "turns", ["history_digest"], None, None),
    ("ix_turns_reply", "turns", ["reply_digest"], None, None),
    ("ix_turns_tools", "turns", ["tools_digest"], "tools_digest IS NOT NULL", None),
    ("ix_history_nodes_previous", "history_nodes", ["previous"], "previous IS NOT NULL", None),
    ("ix_history_nodes_content", "history_nodes", ["content_digest"], None, None),
    ("ix_sessions_agent", "sessions", ["agent_id", "id"], None, None),
    ("ix_sessions_external", "sessions", ["external_id"], "external_id IS NOT NULL", None),
    ("ix_next_states_waiting", "next_states", ["turn_id"], "believed IS 0", "believed IS false"),
    ("ix_feedback_session_id", "feedback", ["session_id"], None, None),
    ("ix_signals_agent", "signals", ["agent_id", "id"], None, None),
    ("ix_signals_source", "signals", ["source", "id"], None, None),
    ("ix_adapters_agent", "adapters", ["agent_id", "id"], None, None),
    ("ix_adapters_state", "adapters", ["state", "id"], None, None),
    ("ix_adapters_parent_id", "adapters", ["parent_id"], None, None),
    ("ix_rounds_agent", "rounds", ["agent_id", "id"], None, None),
    ("ix_rounds_state", "rounds", ["state", "id"], None, None),
    ("ix_round_turns_signal_id", "round_turns", ["signal_id"], None, None),
)
# Longer ones, or a unique constraint, begin with the same columns.
REPLACED = (
    ("ix_sessions_agent_id", "sessions", ["agent_id"]),
    ("ix_next_states_turn_id", "next_states", ["turn_id"]),
    ("ix_signals_turn_id", "signals", ["turn_id"]),
    ("ix_adapters_agent_id", "adapters", ["agent_id"]),
    ("ix_rounds_agent_id", "rounds", ["agent_id"]),
)
# One more column: read in order, and no more of equal conversations than are asked for.
EXTENDED = (
    ("ix_turns_link", "turns", ["key_id", "link_key"], "id"),
    ("ix_turns_prompt", "turns", ["key_id", "prompt_key"], "created_at"),
)


def upgrade() -> None:
    _add_reference("turns", "prompt_head", "history_nodes", "digest")
    _add_reference("signals", "agent_id", "agents", "id")
    op.execute("UPDATE signals SET agent_id = (SELECT agent_id FROM turns WHERE turns.id = signals.turn_id)")
    for name, table, columns, sqlite, postgresql in ADDED:
        op.create_index(
            name,
            table,
            columns,
            sqlite_where=None if sqlite is None else sa.text(sqlite),
            postgresql_where=None if sqlite is None else sa.text(postgresql or sqlite),
        )
    for name, table, _ in REPLACED:
        op.drop_index(name, table)
    for name, table, columns, more in EXTENDED:
        op.drop_index(name, table)
        op.create_index(name, table, [*columns, more])


def downgrade() -> None:
    _put_prompts_back()
    for name, table, columns, _ in EXTENDED:
        op.drop_index(name, table)
        op.create_index(name, table, columns)
    for name, table, columns in REPLACED:
        op.create_index(name, table, columns)
    for name, table, _columns, _sqlite, _postgresql in ADDED:
        op.drop_index(name, table)
    # Their references go with them; a reference that came with its column has no name that Alembic can see.
    with op.batch_alter_table("signals") as batch_op:
        batch_op.drop_column("agent_id")
    with op.batch_alter_table("turns") as batch_op:
        batch_op.drop_column("prompt_head")


def _add_reference(table: str, column: str, target: str, target_column: str) -> None:
    """An empty column that points elsewhere; in place, where a batch would copy the whole table."""
    name = f"fk_{table}_{column}_{target}"
    op.execute(
        f"ALTER TABLE {table} ADD COLUMN {column} VARCHAR"
        f" CONSTRAINT {name} REFERENCES {target} ({target_column})"
    )


def _put_prompts_back() -> None:
    """Prompts that begin with blocks become whole again, as older code reads them."""
    connection = op.get_bind()
    turns = sa.table(
        "turns",
        sa.column("id"),
        sa.column("prompt_head"),
        sa.column("prompt_shared"),
        sa.column("prompt_tail"),
    )
    heads: dict[str, bytes] = {}
    while rows := connection.execute(
        sa.select(turns.c.id, turns.c.prompt_head, turns.c.prompt_tail)
        .where(turns.c.prompt_head.is_not(None))
        .limit(BATCH)
    ).fetchall():
        for turn_id, head, tail in rows:
            if head not in heads:
                heads = {head: _blocks(connection, head)}  # neighbours share them; one is enough to keep
            whole = zlib.compress(heads[head] + zlib.decompress(tail))
            connection.execute(
                turns.update()
                .where(turns.c.id == turn_id)
                .values(prompt_head=None, prompt_shared=0, prompt_tail=whole)
            )


def _blocks(connection: sa.Connection, head: str) -> bytes:
    """The ids of a chain of blocks, oldest first."""
    nodes = sa.table("history_nodes", sa.column("digest"), sa.column("previous"), sa.column("content_digest"))
    contents = sa.table("contents", sa.column("digest"), sa.column("body"))
    found: list[bytes] = []
    digest: str | None = head
    while digest is not None:
        digest, body = connection.execute(
            sa.select(nodes.c.previous, contents.c.body)
            .join(contents, contents.c.digest == nodes.c.content_digest)
            .where(nodes.c.digest == digest)
        ).one()
        found.append(zlib.decompress(body))
    return b"".join(reversed(found))
