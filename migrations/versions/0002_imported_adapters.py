"""adapters that were imported, and which code may use the schema"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
oldest_code = "0001"


def upgrade() -> None:
    op.create_table(
        "schema_rules",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("oldest_code", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_rules")),
    )
    with op.batch_alter_table("adapters") as batch_op:
        batch_op.add_column(sa.Column("origin", sa.String(), server_default="round", nullable=False))
        batch_op.add_column(sa.Column("imported_as", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("adapters") as batch_op:
        batch_op.drop_column("imported_as")
        batch_op.drop_column("origin")
    op.drop_table("schema_rules")
