"""Numbers of adapters, and which of them is live: candidate → published | rejected, published → retired."""

from datetime import datetime

from sqlalchemy import Update, update
from sqlmodel import Session, col, select

from ..errors import Conflict, NotFound, RequestError
from ..ids import new_id
from ..models import Adapter, Agent, Round
from .compare_and_set import move
from .leases import Lease, heartbeat


def burn_version(session: Session, lease: Lease, model_hash: str) -> Adapter:
    """A candidate adapter with a number that no other attempt gets, whatever becomes of it."""
    heartbeat(session, lease)
    row = session.get_one(Round, lease.round_id)
    agent, version = _burn_number(session, row.agent_id)
    adapter = Adapter(
        id=new_id("adapter"),
        agent_id=agent.id,
        version=version,
        name=f"{agent.name}@v{version}",
        parent_id=row.parent_adapter_id,
        round_id=row.id,
        state="candidate",
        # What was learned from withdrawn signals is in the parent's weights, and so in these.
        marks=[] if row.parent_adapter_id is None else session.get_one(Adapter, row.parent_adapter_id).marks,
        model_hash=model_hash,
    )
    session.add(adapter)
    session.flush()
    return adapter


def _burn_number(session: Session, agent_id: str) -> tuple[Agent, int]:
    session.execute(
        update(Agent).where(col(Agent.id) == agent_id).values(next_version=Agent.next_version + 1)
    )
    agent = session.get_one(Agent, agent_id, populate_existing=True)
    return agent, agent.next_version - 1


def promote(session: Session, adapter: Adapter) -> Agent:
    """Make a finished adapter live.

    Raises:
        Conflict: it is not complete, was rejected, or is tainted.
    """
    if adapter.state != "published" or adapter.path is None:
        raise Conflict(f"{adapter.name} is {adapter.state}: only a published adapter can be live")
    if "tainted" in adapter.marks:
        raise Conflict(f"{adapter.name} was trained on erased data and is never live again")
    session.execute(update(Agent).where(col(Agent.id) == adapter.agent_id).values(live_adapter_id=adapter.id))
    return session.get_one(Agent, adapter.agent_id, populate_existing=True)


def import_adapter(session: Session, agent_id: str, *, model_hash: str, imported_as: str) -> Adapter:
    """A candidate for weights that come from elsewhere, with a number that nothing else gets."""
    agent, version = _burn_number(session, agent_id)
    adapter = Adapter(
        id=new_id("adapter"),
        agent_id=agent.id,
        version=version,
        name=f"{agent.name}@v{version}",
        state="candidate",
        origin="import",
        imported_as=imported_as,
        model_hash=model_hash,
    )
    session.add(adapter)
    session.flush()
    return adapter


def publish_import(session: Session, adapter_id: str, *, path: str, sha256: str) -> Adapter:
    """candidate → published: complete, and not live until somebody promotes it.

    Raises:
        Conflict: it is no candidate any more.
    """
    moved = move(session, _imported(adapter_id).values(state="published", path=path, sha256=sha256))
    if not moved:
        raise Conflict("this import was given up: start it again")
    return session.get_one(Adapter, adapter_id, populate_existing=True)


def reject_import(session: Session, adapter_id: str) -> None:
    """candidate → rejected: its number stays burned. Nothing if it is published already."""
    move(session, _imported(adapter_id).values(state="rejected"))


def reject_left_imports(session: Session, before: datetime) -> list[Adapter]:
    """candidate → rejected for imports that began before a moment and were killed; returns them."""
    left = session.exec(
        select(Adapter).where(
            Adapter.state == "candidate", Adapter.origin == "import", Adapter.created_at < before
        )
    ).all()
    return [adapter for adapter in left if move(session, _imported(adapter.id).values(state="rejected"))]


def _imported(adapter_id: str) -> Update:
    return update(Adapter).where(
        col(Adapter.id) == adapter_id, col(Adapter.state) == "candidate", col(Adapter.origin) == "import"
    )


def retire_old(session: Session, agent_id: str, keep: int) -> list[str]:
    """published → retired for all but the newest `keep`, the live and the pinned adapter; returns the paths
    of folders that nobody will serve again."""
    agent = session.get_one(Agent, agent_id)
    published = session.exec(
        select(Adapter)
        .where(Adapter.agent_id == agent_id, Adapter.state == "published")
        .order_by(col(Adapter.version).desc())
    ).all()
    paths = []
    for adapter in published[keep:]:
        if adapter.id not in (agent.live_adapter_id, agent.pinned_adapter_id):
            adapter.state = "retired"
            session.add(adapter)
            paths.append(adapter.path)
    session.flush()
    return [path for path in paths if path is not None]


def rollback(session: Session, agent: Agent, to: int | None) -> Agent:
    """Go back to version `to`, to the live adapter's parent when `to` is None; 0 is the base model.

    Raises:
        RequestError: there is nothing before.
        NotFound: no such version.
        Conflict: that version cannot be live.
    """
    target = rollback_target(session, agent, to)
    if target is not None:
        return promote(session, target)
    session.execute(update(Agent).where(col(Agent.id) == agent.id).values(live_adapter_id=None))
    return session.get_one(Agent, agent.id, populate_existing=True)


def rollback_target(session: Session, agent: Agent, to: int | None) -> Adapter | None:
    """The adapter that `rollback` would make live; `None` is the base model. Raises as `rollback` does."""
    if to is None:
        if agent.live_adapter_id is None:
            raise RequestError(f"agent {agent.name} is on the base model: nothing lies before it", param="to")
        parent_id = session.get_one(Adapter, agent.live_adapter_id).parent_id
        return None if parent_id is None else session.get_one(Adapter, parent_id)
    if to == 0:
        return None
    target = session.exec(
        select(Adapter).where(Adapter.agent_id == agent.id, Adapter.version == to)
    ).one_or_none()
    if target is None:
        raise NotFound(f"agent {agent.name} has no version {to}")
    return target


def mark_adapters(session: Session, round_id: str, mark: str) -> list[Adapter]:
    """Mark the adapters of a round and all their descendants; returns those that had no such mark."""
    marked: list[Adapter] = []
    waiting = list(session.exec(select(Adapter).where(Adapter.round_id == round_id)).all())
    seen: set[str] = set()
    while waiting:
        adapter = waiting.pop()
        if adapter.id in seen:
            continue
        seen.add(adapter.id)
        if mark not in adapter.marks:
            adapter.marks = [*adapter.marks, mark]
            session.add(adapter)
            marked.append(adapter)
        waiting += session.exec(select(Adapter).where(Adapter.parent_id == adapter.id)).all()
    return marked
