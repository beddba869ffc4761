"""replies found by themselves, where a client rewrote what came before"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
# Older code stores turns without the key; they are found by their history alone.
oldest_code = "0003"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN reply_key VARCHAR")
    only = sa.text("reply_key IS NOT NULL")
    op.create_index(
        "ix_turns_reply_key", "turns", ["key_id", "reply_key", "id"], sqlite_where=only, postgresql_where=only
    )


def downgrade() -> None:
    op.drop_index("ix_turns_reply_key", "turns")
    with op.batch_alter_table("turns") as batch_op:
        batch_op.drop_column("reply_key")
