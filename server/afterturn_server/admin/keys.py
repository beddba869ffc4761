"""`keys`: made, listed by prefix, revoked."""

from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from sqlmodel import Session, col, select

from afterturn_core.columns import utc_now
from afterturn_core.errors import Conflict, NotFound, RequestError
from afterturn_core.keys import ADMIN, USER_SCOPES, add_key
from afterturn_core.models import Key

from ..listing import DEFAULT_LIMIT, MAX_INT, After, Limit, agents_by_id, find_agent, newest_first
from ..views import Page
from .access import Admitted

router = APIRouter(tags=["keys"])


class NewKey(BaseModel):
    """A key for an agent; with the scope `admin` and no agent, one for administrators."""

    model_config = ConfigDict(extra="forbid")

    agent: str | None = None
    scopes: list[Literal["inference", "feedback", "admin"]] = Field(
        default=["inference", "feedback"], min_length=1
    )
    expires_in_s: float | None = Field(None, gt=0, le=3_153_600_000)  # a century
    requests_per_minute: int | None = Field(None, ge=1, le=MAX_INT)
    tokens_per_day: int | None = Field(None, ge=1, le=MAX_INT)


class KeyView(BaseModel):
    """A key without what makes it one."""

    id: str
    prefix: str
    agent: str | None
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    requests_per_minute: int | None
    tokens_per_day: int | None


class MadeKey(KeyView):
    """A key just made: the only time that anyone sees it."""

    key: str


@router.get("/keys")
async def list_keys(
    gateway: Admitted, agent: str | None = None, after: After = None, limit: Limit = DEFAULT_LIMIT
) -> Page[KeyView]:
    """Keys, newest first, revoked ones included."""

    def look(session: Session) -> Page[KeyView]:
        statement = select(Key)
        if agent is not None:
            statement = statement.where(Key.agent_id == find_agent(session, agent).id)
        rows, more = newest_first(session, statement, col(Key.id), after=after, limit=limit)
        names = {agent_id: row.name for agent_id, row in agents_by_id(session).items()}
        views = [KeyView(**_fields(row, names.get(row.agent_id or ""))) for row in rows]
        return Page(data=views, next=rows[-1].id if more else None)

    return await gateway.read(look)


@router.post("/keys", status_code=201)
async def make_key(gateway: Admitted, new: NewKey) -> MadeKey:
    """Make a key."""
    if (ADMIN in new.scopes) != (new.agent is None) or (ADMIN in new.scopes and len(new.scopes) > 1):
        raise RequestError(
            f"scopes: any of {', '.join(USER_SCOPES)} for an agent, or {ADMIN} alone without one",
            param="scopes" if new.agent is not None else "agent",
        )

    def apply(session: Session) -> MadeKey:
        agent = None if new.agent is None else find_agent(session, new.agent)
        key, row = add_key(
            session,
            agent,
            tuple(dict.fromkeys(new.scopes)),
            expires_in_s=new.expires_in_s,
            requests_per_minute=new.requests_per_minute,
            tokens_per_day=new.tokens_per_day,
        )
        return MadeKey(**_fields(row, new.agent), key=key)

    return await gateway.write(apply)


@router.delete("/keys/{prefix}")
async def revoke_key(gateway: Admitted, prefix: str) -> KeyView:
    """Revoke a key, at once; the last admin key stays."""

    def apply(session: Session) -> KeyView:
        row = session.exec(select(Key).where(Key.prefix == prefix)).one_or_none()
        if row is None:
            raise NotFound(f"There is no key {prefix[:16]}.")
        if row.agent_id is None and row.revoked_at is None:
            others = select(Key).where(col(Key.agent_id).is_(None), col(Key.revoked_at).is_(None))
            if len(session.exec(others).all()) == 1:
                raise Conflict("This is the last admin key: make another one first.")
        row.revoked_at = row.revoked_at or utc_now()
        session.add(row)
        session.flush()
        names = {agent_id: agent.name for agent_id, agent in agents_by_id(session).items()}
        return KeyView(**_fields(row, names.get(row.agent_id or "")))

    return await gateway.write(apply)


def _fields(row: Key, agent: str | None) -> dict[str, object]:
    fields = {name: getattr(row, name) for name in KeyView.model_fields if name != "agent"}
    return {**fields, "agent": agent}
