"""what judge models were asked, and which one gave a signal"""

import sqlalchemy as sa
from alembic import op

import afterturn_core.columns

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
oldest_code = "0004"


def upgrade() -> None:
    op.create_table(
        "judge_calls",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=True),
        sa.Column("turn_id", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("asked_at", afterturn_core.columns.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_judge_calls_agent_id_agents")),
        sa.ForeignKeyConstraint(
            ["turn_id"], ["turns.id"], name=op.f("fk_judge_calls_turn_id_turns"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_judge_calls")),
    )
    op.create_index("ix_judge_calls_spent", "judge_calls", ["agent_id", "asked_at"])
    op.create_index(op.f("ix_judge_calls_turn_id"), "judge_calls", ["turn_id"])
    with op.batch_alter_table("signals") as batch_op:
        batch_op.add_column(sa.Column("judged_by", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("signals") as batch_op:
        batch_op.drop_column("judged_by")
    op.drop_table("judge_calls")
