"""What keys with limits have used, counted in the database for all gateway processes together.

Time is cut into slices and each slice counted, so that a key has a few rows and not one for each request. A
whole slice counts until all of it is out of the window: never more than the limit, at most a slice less.
"""

from functools import cache

from sqlalchemy import Executable, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session

from afterturn_core.models import Key, KeyUse

MINUTE = 60
DAY = 86_400
TOKENS_SLICE = 600  # seconds; a request's is one

_USES = KeyUse.__table__  # type: ignore[attr-defined]
_KEYS = Key.__table__  # type: ignore[attr-defined]
_WITHIN = (
    select(func.min(_USES.c.slice), func.sum(_USES.c.amount))
    .where(_USES.c.key_id == bindparam("key"))
    .where(_USES.c.kind == bindparam("kind"), _USES.c.slice > bindparam("after"))
)
_FORGET = delete(_USES).where(
    _USES.c.key_id == bindparam("key"),
    _USES.c.kind == bindparam("kind"),
    _USES.c.slice <= bindparam("after"),
)
# PostgreSQL: requests of one key are counted one after the other. SQLite has one writer anyway.
_HOLD = select(_KEYS.c.id).where(_KEYS.c.id == bindparam("key")).with_for_update(key_share=True)


def count_request(session: Session, key_id: str, limit: int, now: float) -> float | None:
    """Count one request of a key, at `now` (seconds of the epoch), if it may make one more.

    Returns None, or the seconds until it may.
    """
    connection = session.connection()
    connection.execute(_HOLD, {"key": key_id})
    window = {"key": key_id, "kind": "requests", "after": int(now) - MINUTE}
    oldest, used = connection.execute(_WITHIN, window).one()
    if used is not None and used >= limit:
        return max(1.0, int(oldest) + MINUTE + 1 - now)
    connection.execute(_FORGET, window)
    _add(session, key_id, "requests", int(now), 1)
    return None


def spend_tokens(session: Session, key_id: str, tokens: int, now: float) -> None:
    """Count tokens that a key has read and sampled."""
    window = {"key": key_id, "kind": "tokens", "after": int(now - DAY) // TOKENS_SLICE - 1}
    session.connection().execute(_FORGET, window)
    _add(session, key_id, "tokens", int(now) // TOKENS_SLICE, tokens)


def tokens_used(session: Session, key_id: str, now: float) -> int:
    """Tokens of the last 24 hours."""
    window = {"key": key_id, "kind": "tokens", "after": int(now - DAY) // TOKENS_SLICE - 1}
    _, used = session.connection().execute(_WITHIN, window).one()
    return int(used or 0)


def _add(session: Session, key_id: str, kind: str, slice_: int, amount: int) -> None:
    connection = session.connection()
    row = {"key_id": key_id, "kind": kind, "slice": slice_, "amount": amount}
    connection.execute(_adding(connection.dialect.name), row)


@cache
def _adding(dialect_name: str) -> Executable:
    """The statement, built once: building costs more than running it."""
    if dialect_name == "postgresql":
        to_postgresql = postgresql.insert(_USES)
        return to_postgresql.on_conflict_do_update(
            index_elements=["key_id", "kind", "slice"],
            set_={"amount": _USES.c.amount + to_postgresql.excluded.amount},
        )
    to_sqlite = sqlite.insert(_USES)
    return to_sqlite.on_conflict_do_update(
        index_elements=["key_id", "kind", "slice"],
        set_={"amount": _USES.c.amount + to_sqlite.excluded.amount},
    )
