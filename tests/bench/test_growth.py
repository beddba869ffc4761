"""What a million turns cost is decided by plans, and plans can be seen with a few hundred."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.growth import exchanges
from bench.growth.conversations import TURNS, conversation, tools
from bench.growth.pages import Pages
from bench.growth.seeding import Seeded, seed
from bench.growth.work import work_of
from sqlmodel import col, select

from afterturn_core.database import Database
from afterturn_core.history import load_history, load_prompt
from afterturn_core.models import Conversation, Turn

FEW, MANY = 20 * TURNS, 100 * TURNS
# Units that reading two long conversations takes, which chance puts on a page; a scan of 3,000 rows is more.
ONE_LONG_HISTORY = 8_000
# Counted through as long as that is cheap; with many turns seldom (`admin/figures.py`).
COUNTED = {"stats"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seeded, Seeded]]:
    """A few turns, and five times as many."""
    folder = tmp_path_factory.mktemp("growth")
    both = []
    for turns in (FEW, MANY):
        database = Database(f"sqlite:///{folder / f'{turns}.db'}")
        database.migrate()
        both.append(seed(database, turns, lambda _done: None))
    yield both[0], both[1]
    for seeded in both:
        seeded.database.close()


def test_seeded_rows_are_what_the_recorder_would_have_written(filled: tuple[Seeded, Seeded]) -> None:
    few, _ = filled
    talk = conversation(2)
    with few.database.read() as session:
        began = session.exec(select(Conversation).order_by(Conversation.created_at)).all()[2]
        turns = session.exec(select(Turn).where(Turn.session_id == began.id).order_by(Turn.id)).all()
        assert len(turns) == TURNS
        for number, turn in enumerate(turns):
            assert load_prompt(session, turn) == talk.prompt_ids(number)
            assert load_history(session, turn.history_digest) == talk.messages(number)
        assert session.connection().exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []


def test_requests_that_go_on_are_linked_and_recorded(filled: tuple[Seeded, Seeded]) -> None:
    """The exchange checks each parent by itself; what it records is stored as a difference like the seed."""
    costs = exchanges.run(filled, 4)
    assert [len(cost.linking) for cost in costs] == [4, 4]
    few, _ = filled
    with few.database.read() as session:
        newest = session.exec(select(Turn).order_by(col(Turn.id).desc()).limit(1)).one()
        assert newest.client == "bench"
        assert len(load_prompt(session, newest)) == newest.prompt_tokens > 12_000
        assert newest.prompt_shared > 11_000
        assert newest.tools_digest is not None
    assert tools(0) != tools(1)


def test_no_page_and_no_task_reads_more_because_there_is_more(
    filled: tuple[Seeded, Seeded], tmp_path: Path
) -> None:
    """Instructions of SQLite's machine: the same on every machine, however busy."""
    grown = {}
    with Pages(filled[0], tmp_path, limit=2) as few, Pages(filled[1], tmp_path, limit=2) as many:
        small, large = few.all(), many.all()
        for name in small.keys() - COUNTED:
            before = work_of(filled[0].database, small[name])
            after = work_of(filled[1].database, large[name])
            if after.units > 2 * before.units + ONE_LONG_HISTORY:
                grown[name] = (before.units, after.units, after.largest)
    assert grown == {}
