"""${message}"""

from alembic import op
import sqlalchemy as sa
import sqlmodel

import afterturn_core.columns
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}
# The oldest revision whose code may use this schema beside ours: new columns are empty or have a default of
# the database's own, nothing it needs is gone. Name this very revision where that cannot be.
oldest_code = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
