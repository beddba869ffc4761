"""The sweep: what moves when time passes, and that sweeping twice changes nothing."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import Session, select, update
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.models import Agent, Conversation, Round, Turn
from afterturn_core.round_plan import plan_round
from afterturn_core.settings import Settings
from afterturn_extractor.pacing import Pace
from afterturn_extractor.scheduling import Past, is_due
from afterturn_extractor.sweep import GRACE_S, QUEUED, Sweep

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class RecordedWake:
    """Notes what workers would have been told; a broker that is away sends nothing."""

    away: bool = False
    queued: int = 0
    judged: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)

    def judge(self, turn_id: str) -> bool:
        self.judged += [] if self.away else [turn_id]
        return not self.away

    def waiting(self) -> int:
        return self.queued

    def train(self, round_id: str) -> bool:
        self.trained += [] if self.away else [round_id]
        return not self.away


def sweep_of(stored: StoredTurns, **settings: object) -> Sweep:
    return Sweep(stored.database, Settings(**settings), RecordedWake())  # type: ignore[arg-type]


def make_older(stored: StoredTurns, seconds: float) -> None:
    earlier = utc_now() - timedelta(seconds=seconds)
    with stored.database.write() as session:
        session.execute(update(Turn).values(observed_at=earlier, judged_at=earlier))
        session.execute(update(Round).values(created_at=earlier))


def test_an_idle_session_settles_and_its_candidate_is_believed(stored: StoredTurns) -> None:
    idle = stored.session(last_seen_at=utc_now() - timedelta(seconds=301))
    busy = stored.session(last_seen_at=utc_now() - timedelta(seconds=299))
    left, talking = stored.turn(session_id=idle), stored.turn(session_id=busy)
    stored.candidate(left, "Too long, please be brief.")
    stored.candidate(talking, "Too long, please be brief.")
    swept = sweep_of(stored).once()
    assert swept.settled == (idle,)
    assert stored.load(left).state == "observed"
    assert stored.load(talking).state == "open"
    assert sweep_of(stored).once().settled == ()


def test_an_ended_session_settles_at_once(stored: StoredTurns) -> None:
    session_id = stored.session()
    turn_id = stored.turn(session_id=session_id)
    stored.candidate(turn_id, "Perfect, thanks!")
    with stored.database.write() as session:
        session.execute(update(Conversation).values(ended_at=utc_now()))
    assert sweep_of(stored).once().settled == (session_id,)
    assert stored.load(turn_id).state == "observed"


def test_what_a_client_wrote_by_itself_is_not_believed_when_a_session_is_idle(stored: StoredTurns) -> None:
    session_id = stored.session(last_seen_at=utc_now() - timedelta(seconds=301))
    turn_id = stored.turn(session_id=session_id)
    stored.candidate(turn_id, "[OpenClaw heartbeat poll]")
    assert sweep_of(stored).once().settled == (session_id,)
    assert stored.load(turn_id).state == "open"


def test_a_turn_whose_message_was_lost_is_sent_again_with_pauses(stored: StoredTurns) -> None:
    turn_id = stored.observed("Too long.")
    sweep = sweep_of(stored)
    assert sweep.once().judged_again == ()  # its message may still be on the way
    make_older(stored, GRACE_S + 1)
    assert sweep.once().judged_again == (turn_id,)
    assert sweep.once().judged_again == ()


def test_enough_signals_start_one_round_with_the_settings_of_the_install(stored: StoredTurns) -> None:
    turns = [stored.judged() for _ in range(3)]
    sweep = sweep_of(stored, min_signals=3, learning_rate=2e-4, seed=5, objective="opd")
    (round_id,) = sweep.once().started
    assert sweep.once().started == ()
    with stored.database.read() as session:
        row = session.get_one(Round, round_id)
    assert sorted(row.turn_ids) == sorted(turns)
    assert row.objective == "opd"
    assert row.settings["learning_rate"] == 2e-4
    assert row.settings["seed"] == 5
    assert {stored.load(turn).state for turn in turns} == {"claimed"}


def test_too_few_signals_wait_until_the_oldest_has_waited_long(stored: StoredTurns) -> None:
    stored.judged()
    sweep = sweep_of(stored, min_signals=3, max_wait_s=60)
    assert sweep.once().started == ()
    make_older(stored, 61)
    assert len(sweep.once().started) == 1


def test_held_out_turns_start_no_round(stored: StoredTurns) -> None:
    turn_id = stored.judged()
    with stored.database.write() as session:
        session.execute(update(Turn).where(Turn.id == turn_id).values(held_out=True))  # type: ignore[arg-type]
    assert sweep_of(stored, min_signals=1).once().started == ()


def test_a_frozen_agent_starts_no_round(stored: StoredTurns) -> None:
    stored.judged()
    with stored.database.write() as session:
        session.execute(update(Agent).values(frozen=True))
    assert sweep_of(stored, min_signals=1).once().started == ()


def test_an_agent_with_its_own_number_of_signals_uses_it(stored: StoredTurns) -> None:
    stored.judged()
    with stored.database.write() as session:
        session.execute(update(Agent).values(min_signals=1))
    assert len(sweep_of(stored, min_signals=50).once().started) == 1


def claimed(stored: StoredTurns) -> str:
    stored.judged()
    with stored.database.write() as session:
        agent = session.get_one(Agent, stored.agent_id)
        return lifecycle.claim_round(session, agent, plan_round(Settings(), agent)).id


def test_a_claimed_round_without_a_worker_is_sent_again(stored: StoredTurns) -> None:
    round_id = claimed(stored)
    sweep = sweep_of(stored)
    assert sweep.once().trained_again == ()
    make_older(stored, GRACE_S + 1)
    assert sweep.once().trained_again == (round_id,)
    assert sweep.once().trained_again == ()


def take(session: Session, round_id: str, seconds: float) -> None:
    lifecycle.acquire_lease(session, round_id, "somebody", seconds)


def test_a_held_round_is_left_alone_and_one_whose_lease_ran_out_is_sent_again(stored: StoredTurns) -> None:
    round_id = claimed(stored)
    with stored.database.write() as session:
        take(session, round_id, 60)
    make_older(stored, 3600)
    assert sweep_of(stored).once().trained_again == ()
    with stored.database.write() as session:
        session.execute(update(Round).values(lease_expires_at=utc_now() - timedelta(seconds=1)))
    assert sweep_of(stored).once().trained_again == (round_id,)


def test_a_round_whose_workers_keep_dying_is_given_up_and_its_turns_go_back(stored: StoredTurns) -> None:
    round_id = claimed(stored)
    for _ in range(lifecycle.MAX_ATTEMPTS):
        with stored.database.write() as session:
            take(session, round_id, -1)
    swept = sweep_of(stored, min_signals=50).once()
    assert swept.given_up == (round_id,)
    assert swept.trained_again == ()
    with stored.database.read() as session:
        assert session.exec(select(Turn.state)).all() == ["judged"]


def test_after_a_rejected_round_the_agent_pauses(stored: StoredTurns) -> None:
    round_id = claimed(stored)
    with stored.database.write() as session:
        lease = lifecycle.acquire_lease(session, round_id, "somebody", 60)
        lifecycle.reject(session, lease, "no", adapter_id=None, gate={}, metrics={}, backoff_s=0)
    assert sweep_of(stored, min_signals=1, round_backoff_s=600).once().started == ()
    assert len(sweep_of(stored, min_signals=1, round_backoff_s=0).once().started) == 1


@pytest.mark.parametrize(
    ("streak", "state", "minutes_ago", "due"),
    [
        (0, "published", 0, True),
        (1, "rejected", 9, False),
        (1, "rejected", 10, True),
        (2, "rejected", 19, False),
        (2, "rejected", 20, True),
        (1, "cancelled", 9, False),
        (1, "failed", 0.4, False),
        (1, "failed", 0.5, True),
        (3, "failed", 1.9, False),
        (3, "failed", 2, True),
        (50, "rejected", 10 * 64, True),
    ],
)
def test_pauses_after_rounds_without_an_adapter(
    streak: int, state: str, minutes_ago: float, due: bool
) -> None:
    settings = Settings(min_signals=8, round_backoff_s=600)
    past = Past(streak, state, NOW - timedelta(minutes=minutes_ago))
    agent = Agent(id="a", name="a")
    assert is_due(settings, agent, 8, NOW, past, NOW) is due


def test_a_long_queue_gets_no_second_message_and_a_shorter_one_is_filled_up(stored: StoredTurns) -> None:
    turns = [stored.observed("Too long, please be brief.") for _ in range(3)]
    make_older(stored, GRACE_S + 1)
    wake = RecordedWake(queued=QUEUED)
    sweep = Sweep(stored.database, Settings(), wake)
    assert sweep.once().judged_again == ()
    wake.queued = QUEUED - 2
    assert len(sweep.once().judged_again) == 2
    wake.queued = 0
    sweep.once()
    assert sorted(wake.judged) == sorted(turns)


def test_many_waiting_turns_are_looked_at_page_by_page_and_none_hides_another(stored: StoredTurns) -> None:
    turns = [stored.observed("Too long.") for _ in range(7)]
    make_older(stored, GRACE_S + 1)  # all at one moment, so that the id decides the order
    wake = RecordedWake()
    sweep = Sweep(stored.database, Settings(), wake, batch=2, pages=2)
    assert sweep.once().judged_again == tuple(sorted(turns)[:4])
    assert sweep.once().judged_again == tuple(sorted(turns)[4:])
    assert sweep.once().judged_again == ()  # from the start again: their pauses are not over
    new = stored.observed("Too long.")
    make_older(stored, GRACE_S + 1)
    assert sum((sweep.once().judged_again for _ in range(4)), ()) == (new,)
    assert sorted(wake.judged) == sorted([*turns, new])


def test_what_could_not_be_sent_is_sent_at_once_when_the_broker_is_back(stored: StoredTurns) -> None:
    turns = [stored.observed("Too long.") for _ in range(3)]
    round_id = claimed(stored)
    make_older(stored, GRACE_S + 1)
    wake = RecordedWake(away=True)
    sweep = Sweep(stored.database, Settings(), wake, batch=2)
    for _ in range(3):
        swept = sweep.once()
        assert (swept.judged_again, swept.trained_again) == ((), ())
    wake.away = False
    swept = sweep.once()
    assert sorted(swept.judged_again) == sorted(turns)
    assert swept.trained_again == (round_id,)


def test_a_step_that_fails_does_not_keep_the_others_from_being_done(stored: StoredTurns) -> None:
    class Broken(RecordedWake):
        def judge(self, turn_id: str) -> bool:
            raise RuntimeError("a fault of ours")

    stored.observed("Too long.")
    stored.judged()
    make_older(stored, GRACE_S + 1)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        Sweep(stored.database, Settings(min_signals=1), Broken()).once()
    with stored.database.read() as session:
        assert len(session.exec(select(Round)).all()) == 1


def test_a_pace_doubles_up_to_its_longest_and_forgets_what_is_done() -> None:
    pace = Pace(first_s=3, longest_s=10)
    sent = []
    for second in range(60):
        if pace.is_due("a", second):
            pace.sent("a", second)
            sent.append(second)
    assert sent == [0, 3, 9, 19, 29, 39, 49, 59]
    assert not pace.is_due("a", 60)
    pace.keep([])
    assert pace.is_due("a", 60)
