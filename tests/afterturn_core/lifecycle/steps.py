"""Each step of a turn's and a round's way, in a transaction of its own."""

from afterturn_core import lifecycle
from afterturn_core.lifecycle import RoundPlan, SignalDraft
from afterturn_core.models import Adapter, Agent, Round, Turn

PLAN = RoundPlan(objective="hybrid", max_turns=64)


def observe(stored, turn_id, *found, source="later"):
    with stored.database.write() as session:
        lifecycle.observe(session, turn_id, source, found)


def believe(stored, turn_id, *found, source="later still"):
    with stored.database.write() as session:
        lifecycle.believe(session, turn_id, source, found)


def judge(stored, turn_id, verdict, *, before=None, hints=()):
    with stored.database.write() as session:
        draft = SignalDraft(verdict, "rules", hints=hints)
        turn = session.get(Turn, turn_id)
        stamp = before or (turn and turn.observed_at)
        return lifecycle.save_signal(session, turn_id, draft, evidence_of=stamp)


def claim(stored, plan=PLAN):
    with stored.database.write() as session:
        return lifecycle.claim_round(session, session.get_one(Agent, stored.agent_id), plan)


def lease(stored, round_id, seconds=60):
    with stored.database.write() as session:
        return lifecycle.acquire_lease(session, round_id, "worker", seconds)


def publish(stored, held, adapter_id, gate=None):
    with stored.database.write() as session:
        lifecycle.publish(
            session, held, adapter_id, path="somewhere", sha256="0", gate=gate or {}, metrics={}
        )


def trained(stored, count=1):
    """A published round over fresh judged turns; returns the turns and the adapter."""
    turn_ids = [stored.judged() for _ in range(count)]
    row = claim(stored)
    held = lease(stored, row.id)
    with stored.database.write() as session:
        adapter = lifecycle.burn_version(session, held, "hash")
    publish(stored, held, adapter.id)
    return turn_ids, adapter


def round_of(stored, round_id):
    with stored.database.read() as session:
        return session.get_one(Round, round_id)


def adapter_of(stored, adapter_id):
    with stored.database.read() as session:
        return session.get_one(Adapter, adapter_id)
