"""what keys with limits have used, counted for all gateway processes together"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
oldest_code = "0006"


def upgrade() -> None:
    op.create_table(
        "key_uses",
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("slice", sa.Integer(), nullable=False),
        sa.Column("amount", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["keys.id"], name=op.f("fk_key_uses_key_id_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", "kind", "slice", name=op.f("pk_key_uses")),
    )


def downgrade() -> None:
    op.drop_table("key_uses")
