"""A session's outcome that was stored as smaller values becomes one value with weights, and back."""

import pytest
from alembic import command
from sqlalchemy import Engine, text
from tests.migrations.rows import fill, tables_of

from afterturn_core.database import open_database
from afterturn_core.schema import alembic_config

WEIGHTS = (1.0, 0.5, 0.25, 0.125)


def heard(engine: Engine, columns: str) -> list[tuple[float, ...]]:
    with engine.connect() as connection:
        rows = connection.execute(
            text(f"SELECT {columns} FROM next_states WHERE role = 'outcome' ORDER BY position")
        )
        return [tuple(row) for row in rows]


@pytest.mark.parametrize("sent", [0.9, 0.0, 0.3, 0.5, 0.7000001])
def test_values_of_before_become_what_was_sent_and_go_back_to_the_last_bit(url: str, sent: float) -> None:
    config, engine = alembic_config(url), open_database(url)
    command.upgrade(config, "0007")
    fill(engine, tables_of(engine), "row")
    stored = [0.5 + (sent - 0.5) * weight for weight in WEIGHTS]
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE feedback SET kind = 'outcome', value = :sent WHERE id = 'row-feedback-0'"),
            {"sent": sent},
        )
        for position, value in enumerate(stored):
            connection.execute(
                text(
                    "INSERT INTO next_states (id, turn_id, source_id, position, role, text, believed, "
                    "withdrawn, kind, value, created_at) SELECT :id, turn_id, 'row-feedback-0', :position, "
                    "'outcome', '', believed, withdrawn, 'outcome', :value, created_at "
                    "FROM next_states WHERE id = 'row-next_states-0'"
                ),
                {"id": f"outcome-{position}", "position": position, "value": value},
            )
    command.upgrade(config, "0008")
    # One in the middle is no verdict whatever its weight.
    weights = WEIGHTS if sent != 0.5 else (1.0,) * 4
    assert heard(engine, "value, weight") == [(sent, weight) for weight in weights]
    command.downgrade(config, "0007")
    assert heard(engine, "value") == [(value,) for value in stored]
    engine.dispose()
