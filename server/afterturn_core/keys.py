"""API keys: made once, stored as a hash, and the first ones written to `keys.env`."""

import hashlib
import os
import secrets
from datetime import timedelta

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from .columns import utc_now
from .database import Database
from .errors import Conflict
from .ids import new_id
from .models import Agent, Key
from .settings import Settings

DEFAULT_AGENT = "default"
USER_SCOPES = ("inference", "feedback")
ADMIN = "admin"
_PREFIX_LENGTH = 11  # "at-" and eight characters: enough to tell keys apart, useless to guess one


def digest(key: str) -> str:
    """SHA-256 of a key. Keys are 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(key.encode()).hexdigest()


def add_key(
    session: Session,
    agent: Agent | None,
    scopes: tuple[str, ...],
    *,
    expires_in_s: float | None = None,
    requests_per_minute: int | None = None,
    tokens_per_day: int | None = None,
) -> tuple[str, Key]:
    """Make a key; the first element of the pair is the only time anyone sees it."""
    key = f"at-{secrets.token_urlsafe(32)}"
    row = Key(
        id=new_id("key"),
        prefix=key[:_PREFIX_LENGTH],
        digest=digest(key),
        agent_id=None if agent is None else agent.id,
        scopes=list(scopes),
        expires_at=None if expires_in_s is None else utc_now() + timedelta(seconds=expires_in_s),
        requests_per_minute=requests_per_minute,
        tokens_per_day=tokens_per_day,
    )
    session.add(row)
    session.flush()
    return key, row


def add_agent(session: Session, name: str) -> Agent:
    """Make an agent.

    Raises:
        Conflict: the name is taken.
    """
    if session.exec(select(Agent).where(Agent.name == name)).one_or_none() is not None:
        raise Conflict(f"there is already an agent {name}")
    agent = Agent(id=new_id("agent"), name=name)
    session.add(agent)
    session.flush()
    return agent


def prepare_first_start(database: Database, settings: Settings) -> bool:
    """Make the agent `default`, one key for it and an admin key; true if this was the first start.

    The keys are written to `keys.env` once. An `AFTERTURN_ADMIN_KEY` replaces the admin key.
    """
    try:
        return _prepare(database, settings)
    except (IntegrityError, Conflict):
        # Another process started at the same moment and was first: now its rows are there to be found.
        return _prepare(database, settings)


def _prepare(database: Database, settings: Settings) -> bool:
    given = settings.admin_key.get_secret_value()
    with database.write() as session:
        first = session.exec(select(Agent).where(Agent.name == DEFAULT_AGENT)).one_or_none() is None
        if first:
            agent = add_agent(session, DEFAULT_AGENT)
            user_key, _ = add_key(session, agent, USER_SCOPES)
            admin_key, _ = add_key(session, None, (ADMIN,))
            _write_keys(settings, user_key, given or admin_key)
        row = session.exec(select(Key).where(Key.digest == digest(given))).one_or_none() if given else None
        if given and (row is None or row.revoked_at is not None):
            for old in session.exec(select(Key).where(col(Key.agent_id).is_(None))).all():
                old.revoked_at = old.revoked_at or utc_now()
                session.add(old)
            row = row or Key(
                id=new_id("key"), prefix=f"set-{digest(given)[:7]}", digest=digest(given), scopes=[ADMIN]
            )
            row.revoked_at = None
            session.add(row)
    return first


def _write_keys(settings: Settings, user_key: str, admin_key: str) -> None:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(settings.keys_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"AFTERTURN_API_KEY={user_key}\nAFTERTURN_ADMIN_KEY={admin_key}\n")
