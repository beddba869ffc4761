"""how much a session's outcome counts for each of its turns"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
# Older code spreads outcomes as it did: by value, each with the whole weight.
oldest_code = "0007"


def upgrade() -> None:
    for table in ("next_states", "signals"):
        with op.batch_alter_table(table) as batch_op:
            batch_op.add_column(sa.Column("weight", sa.Float(), server_default="1", nullable=False))
    # Until now a turn further back was given a value drawn towards 0.5 by a half, a quarter or an eighth. The
    # event itself has the value that was sent.
    op.execute(
        """
        UPDATE next_states SET
            value = feedback.value,
            weight = CASE
                WHEN (next_states.value - 0.5) / (feedback.value - 0.5) > 0.375 THEN 0.5
                WHEN (next_states.value - 0.5) / (feedback.value - 0.5) > 0.1875 THEN 0.25
                ELSE 0.125 END
        FROM feedback
        WHERE feedback.id = next_states.source_id AND feedback.kind = 'outcome'
            AND next_states.role = 'outcome' AND next_states.value <> feedback.value
            AND feedback.value <> 0.5
        """
    )


def downgrade() -> None:
    op.execute(
        "UPDATE next_states SET value = 0.5 + (value - 0.5) * weight WHERE role = 'outcome' AND weight <> 1"
    )
    for table in ("signals", "next_states"):
        with op.batch_alter_table(table) as batch_op:
            batch_op.drop_column("weight")
