"""what clients of other protocols than chat sent, kept beside the turn; whom a client speaks with"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
oldest_code = "0005"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN client_user VARCHAR")
    only = sa.text("client_user IS NOT NULL")
    op.create_index(
        "ix_turns_client_user", "turns", ["client_user"], sqlite_where=only, postgresql_where=only
    )
    op.create_table(
        "original_requests",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("items_digest", sa.String(), nullable=True),
        sa.Column("fields_digest", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["turn_id"], ["turns.id"], name=op.f("fk_original_requests_turn_id_turns"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["items_digest"],
            ["history_nodes.digest"],
            name=op.f("fk_original_requests_items_digest_history_nodes"),
        ),
        sa.ForeignKeyConstraint(
            ["fields_digest"], ["contents.digest"], name=op.f("fk_original_requests_fields_digest_contents")
        ),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_original_requests")),
    )
    op.create_index(op.f("ix_original_requests_items_digest"), "original_requests", ["items_digest"])
    op.create_index(op.f("ix_original_requests_fields_digest"), "original_requests", ["fields_digest"])


def downgrade() -> None:
    op.drop_table("original_requests")
    op.drop_index("ix_turns_client_user", "turns")
    with op.batch_alter_table("turns") as batch_op:
        batch_op.drop_column("client_user")
