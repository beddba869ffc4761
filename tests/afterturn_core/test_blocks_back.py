"""Going back to the version before prompts had blocks: they become whole again."""

from alembic import command
from sqlalchemy import text
from tests.stored_turns import StoredTurns

from afterturn_core.history import BLOCK, load_prompt, store_prompt, unpack_ids
from afterturn_core.models import Turn
from afterturn_core.schema import alembic_config


def test_prompts_are_whole_for_older_code_and_read_by_newer_code_again(stored: StoredTurns) -> None:
    lengths = (5, BLOCK, 2 * BLOCK + 3, 2 * BLOCK + 4)
    prompts = {stored.turn(): list(range(length)) for length in lengths}
    with stored.database.write() as session:
        for turn_id, prompt in prompts.items():
            store_prompt(session, session.get_one(Turn, turn_id), prompt, None)
    stored.database.close()
    command.downgrade(alembic_config(stored.url), "0002")
    with stored.database.engine.connect() as connection:
        rows = connection.execute(text("SELECT id, prompt_shared, prompt_tail FROM turns")).all()
    assert {row.id: (row.prompt_shared, unpack_ids(row.prompt_tail)) for row in rows} == {
        turn_id: (0, prompt) for turn_id, prompt in prompts.items()
    }
    stored.database.close()
    stored.database.migrate()
    with stored.database.read() as session:
        assert {
            turn_id: load_prompt(session, session.get_one(Turn, turn_id)) for turn_id in prompts
        } == prompts
