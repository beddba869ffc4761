"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime

from sqlalchemy import BindParameter, DateTime, Dialect, bindparam
from sqlalchemy.orm import QueryableAttribute
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite forgets time zones, so they are put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times: they mean something else on every machine."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a stored time needs a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Put UTC back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def attribute(column: object) -> QueryableAttribute[object]:
    """A model's column as SQLAlchemy's loading options take it, which SQLModel's types do not say."""
    assert isinstance(column, QueryableAttribute)
    return column


def written_out(value: str) -> BindParameter[str]:
    """A constant that is part of the statement's text: an index over some rows (`WHERE state = 'judged'`)
    serves a query only if the planner can read there that it asks for no others."""
    return bindparam(None, value, literal_execute=True)
