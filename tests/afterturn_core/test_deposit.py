"""Contents and histories that are written together."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func
from sqlmodel import select

from afterturn_core.deposit import Deposit
from afterturn_core.history import load_content, load_history, store_history
from afterturn_core.models import Content, HistoryNode

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d" * 2000]), max_size=8)


def messages(texts):
    return [{"role": "user", "content": text} for text in texts]


def count(session, table):
    return session.exec(select(func.count()).select_from(table)).one()


def test_nothing_is_there_before_it_is_written(database):
    with database.write() as session:
        deposit = Deposit(session)
        content, history = deposit.content({"x": 1}), deposit.history(messages("ab"))
        assert (count(session, Content), count(session, HistoryNode)) == (0, 0)
        deposit.write()
        deposit.write()
        assert (count(session, Content), count(session, HistoryNode)) == (3, 2)
    with database.read() as session:
        assert load_content(session, content) == {"x": 1}
        assert load_history(session, history) == messages("ab")


def test_what_follows_a_known_node_is_all_that_is_written(database):
    old, long = messages(map(str, range(30))), messages(map(str, range(33)))
    with database.write() as session:
        known = store_history(session, old)
        deposit = Deposit(session)
        digest = deposit.history(long, known=known)
        deposit.write()
        assert (count(session, Content), count(session, HistoryNode)) == (33, 33)
        # A known node of another conversation says nothing about this one.
        other = deposit.history([*messages("x"), *long], known=known)
        deposit.write()
    with database.read() as session:
        assert load_history(session, digest) == long
        assert load_history(session, other) == [*messages("x"), *long]


@given(histories=st.lists(TEXTS, max_size=6), before=TEXTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_histories_come_back_however_they_share(database, histories, before):
    with database.write() as session:
        known = store_history(session, messages(before))
        deposit = Deposit(session)
        digests = [deposit.history(messages(texts), known=known) for texts in histories]
        deposit.write()
    with database.read() as session:
        for texts, digest in zip(histories, digests, strict=True):
            assert load_history(session, digest) == messages(texts)
