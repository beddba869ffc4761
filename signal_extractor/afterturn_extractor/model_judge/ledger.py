"""What judge models were asked: answers are kept, so that a re-run costs nothing, and tokens are counted."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col, func, select

from afterturn_core.columns import utc_now
from afterturn_core.models import JudgeCall
from afterturn_extractor.model_judge.answer import Answer

_CALLS = JudgeCall.__table__  # type: ignore[attr-defined]  # SQLModel makes it


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of one call as the model's server counts them."""

    prompt_tokens: int
    completion_tokens: int


def key_of(material: str, *, version: str, model: str, vote: int) -> str:
    """The name under which the answer to one vote on this evidence is kept."""
    digest = hashlib.sha256()
    for part in (version, model, str(vote), material):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Kept:
    """What was answered before; None: a text that could not be read, which asking again would not change."""

    answer: Answer | None


def kept(session: Session, key: str) -> Kept | None:
    """The answer that was given before, if any."""
    row = session.get(JudgeCall, key)
    if row is None:
        return None
    return Kept(None if row.answer is None else Answer.model_validate_json(row.answer))


def keep(
    session: Session,
    key: str,
    answer: Answer | None,
    spent: Spent,
    *,
    agent_id: str | None,
    turn_id: str | None,
    model: str,
) -> None:
    """Keep an answer and what it cost; None is an answer that could not be read: it cost all the same.

    Two workers may have asked the same: the later answer stands, and both are paid for.
    """
    told = None if answer is None else answer.model_dump_json()
    new = {"answer": told, "asked_at": utc_now()}
    tokens = {"prompt_tokens": spent.prompt_tokens, "completion_tokens": spent.completion_tokens}
    about = {"key": key, "agent_id": agent_id, "turn_id": turn_id, "model": model}
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    paid = {name: _CALLS.c[name] + count for name, count in tokens.items()}
    session.execute(
        dialect.insert(_CALLS)
        .values({**about, **new, **tokens})
        .on_conflict_do_update(index_elements=[_CALLS.c.key], set_={**new, **paid})
    )


def spent_since(session: Session, agent_id: str, since: datetime) -> int:
    """Tokens spent on an agent's turns since then, prompts and answers together."""
    total = func.coalesce(func.sum(col(JudgeCall.prompt_tokens) + col(JudgeCall.completion_tokens)), 0)
    return int(
        session.exec(
            select(total).where(JudgeCall.agent_id == agent_id, col(JudgeCall.asked_at) >= since)
        ).one()
    )


def day_began(now: datetime) -> datetime:
    """Midnight (UTC) before `now`: budgets are per calendar day."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
