"""What one more request costs: finding its place, and recording it, the way the gateway does."""

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from afterturn_core.columns import utc_now
from afterturn_core.ids import new_id
from afterturn_core.models import Turn
from afterturn_server.linking import read_history
from afterturn_server.recording import Answered, Asked, Choice, Finished, record
from afterturn_server.resolution import Resolved
from afterturn_server.thread import find_place
from afterturn_server.turn_options import TurnOptions
from afterturn_server.upstream import Target
from afterturn_server.writer import Writer
from bench.growth.conversations import TURNS, branch, conversation, tools
from bench.growth.seeding import Seeded
from bench.growth.tables import MODEL_HASH

OPTIONS = TurnOptions()


@dataclass
class Costs:
    """Seconds that requests took over one database."""

    linking: list[float] = field(default_factory=list)
    recording: list[float] = field(default_factory=list)

    def milliseconds(self) -> dict[str, float]:
        """Medians and the 99th percentile of the sum."""
        both = sorted(one + other for one, other in zip(self.linking, self.recording, strict=True))
        return {
            "linking_p50": _ms(statistics.median(self.linking)),
            "recording_p50": _ms(statistics.median(self.recording)),
            "both_p50": _ms(statistics.median(both)),
            "both_p99": _ms(both[int(0.99 * (len(both) - 1))]),
        }


async def exchange(seeded: Sequence[Seeded], requests: int) -> list[Costs]:
    """Send `requests` requests to each database, in turns, so that whatever else the machine does weighs on
    all of them alike. Each continues a random old conversation somewhere in its later half.

    Raises:
        AssertionError: a request was linked to anything but the turn it continues.
    """
    choose = random.Random(1)
    writers = [Writer(one.database) for one in seeded]
    costs = [Costs() for _ in seeded]
    try:
        for number in range(-20, requests):  # the first few only warm up
            turn, share = choose.randrange(TURNS // 2, TURNS), choose.random()
            for one, writer, cost in zip(seeded, writers, costs, strict=True):
                await _one(one, writer, cost, number, turn, share)
    finally:
        for writer in writers:
            writer.close()
    for cost in costs:
        del cost.linking[:20], cost.recording[:20]
    return costs


async def _one(one: Seeded, writer: Writer, cost: Costs, number: int, turn: int, share: float) -> None:
    talk = conversation(int(share * one.conversations))
    step = branch(talk, turn, number)
    owner = one.owners[talk.agent]
    messages = talk.messages(turn, step.asked)
    prompt = [*talk.prompt_ids(turn)[: -len(talk.steps[turn].asked_ids)], *step.asked_ids]
    offered = tools(talk.agent)
    began = time.perf_counter()
    history = read_history(messages)
    with one.database.read() as session:
        place = find_place(session, owner.agent_id, owner.key_id, history, OPTIONS, tools=offered)
    linked = time.perf_counter()
    asked = Asked(
        turn_id=new_id("turn"),
        key_id=owner.key_id,
        protocol="chat",
        client="bench",
        created_at=utc_now(),
        messages=messages,
        tools=offered,
        sampling={"temperature": 0.7},
        history=history,
        options=OPTIONS,
        resolved=Resolved(owner.agent_id, Target()),
        place=place,
        model_hash=MODEL_HASH,
    )
    choice = Choice(0, step.reply, "stop", step.reply_ids, (-0.5,) * len(step.reply_ids))
    answered = Answered(new_id("chatcmpl"), tuple(prompt), (choice,))
    before = time.perf_counter()
    await writer.run_together(record, Finished(asked, answered))
    cost.recording.append(time.perf_counter() - before)
    cost.linking.append(linked - began)
    _check_parent(one, place.parent_id, talk.steps[turn - 1].reply_ids)


def _check_parent(one: Seeded, parent_id: str | None, reply_ids: Sequence[int]) -> None:
    assert parent_id is not None, "a request that goes on from an old conversation found no parent"
    with one.database.read() as session:
        parent = session.get_one(Turn, parent_id)
        assert parent.completion_tokens == len(reply_ids), "linked to another turn than the one it continues"


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


def run(seeded: Sequence[Seeded], requests: int) -> list[Costs]:
    """`exchange`, from code that waits for nothing else."""
    return asyncio.run(exchange(seeded, requests))
