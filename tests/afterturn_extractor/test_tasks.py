"""Verdicts from the database and back, in this process and through a real worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlmodel import Session, col, select
from tests.broker import running_broker
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.broker import Wake
from afterturn_core.columns import utc_now
from afterturn_core.errors import SettingsError
from afterturn_core.history import store_history
from afterturn_core.ids import new_id
from afterturn_core.lifecycle import Piece
from afterturn_core.models import Round, Signal, Turn
from afterturn_core.settings import Settings
from afterturn_extractor import rules
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.judging import judge_of, judge_turn
from afterturn_extractor.load_evidence import load_evidence, text_of

PATIENCE_S = 120.0
COMPLAINT = "That's way too long. Please answer in one short sentence."


def signals(stored: StoredTurns, turn_id: str) -> list[Signal]:
    with stored.database.read() as session:
        return list(
            session.exec(select(Signal).where(Signal.turn_id == turn_id).order_by(col(Signal.revision)))
        )


def give(stored: StoredTurns, turn_id: str, kind: str, value: float | None, text: str = "") -> str:
    feedback_id = new_id("feedback")
    role = "outcome" if kind == "outcome" else "feedback"
    with stored.database.write() as session:
        lifecycle.add_feedback(session, turn_id, feedback_id, Piece(role, text, kind, value))
    return feedback_id


def test_a_complaint_becomes_a_verdict_and_a_hint(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)
    assert judge_turn(stored.database, rules.judge, turn_id) == "judged"
    (signal_,) = signals(stored, turn_id)
    assert (signal_.verdict, signal_.source) == (-1, "rules")
    assert any("one short sentence" in hint["text"] for hint in signal_.hints)


def test_judging_twice_stores_one_signal(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)
    judge_turn(stored.database, rules.judge, turn_id)
    assert judge_turn(stored.database, rules.judge, turn_id) is None
    assert len(signals(stored, turn_id)) == 1


def test_silence_about_the_reply_abstains(stored: StoredTurns) -> None:
    turn_id = stored.observed("What is the capital of Peru?")
    assert judge_turn(stored.database, rules.judge, turn_id) == "abstained"
    (signal_,) = signals(stored, turn_id)
    assert signal_.verdict not in (-1, 1)


def test_without_a_judge_only_feedback_counts(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)
    assert judge_turn(stored.database, None, turn_id) == "abstained"
    give(stored, turn_id, "thumb", 1)
    assert judge_turn(stored.database, None, turn_id) == "judged"
    assert [(row.revision, row.verdict, row.source) for row in signals(stored, turn_id)] == [
        (1, None, "explicit"),
        (2, 1, "explicit"),
    ]


def test_a_thumb_outweighs_the_words_and_the_disagreement_is_kept(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)
    give(stored, turn_id, "thumb", 1)
    judge_turn(stored.database, rules.judge, turn_id)
    (signal_,) = signals(stored, turn_id)
    assert (signal_.verdict, signal_.source, signal_.disagreement) == (1, "explicit", True)


def test_withdrawn_feedback_no_longer_counts(stored: StoredTurns) -> None:
    turn_id = stored.turn()
    feedback_id = give(stored, turn_id, "thumb", -1)
    judge_turn(stored.database, rules.judge, turn_id)
    with stored.database.write() as session:
        lifecycle.withdraw_feedback(session, feedback_id)
    assert judge_turn(stored.database, rules.judge, turn_id) == "abstained"
    assert [row.verdict for row in signals(stored, turn_id)] == [-1, None]


def test_an_administrators_verdict_survives_later_evidence(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)
    with stored.database.write() as session:
        lifecycle.override_verdict(session, turn_id, 1)
    stored.add_next_state(turn_id, "No, this is wrong.")
    judge_turn(stored.database, rules.judge, turn_id)
    assert signals(stored, turn_id)[-1].verdict == 1


def test_a_judge_that_fails_raises_and_the_turn_stays_observed(stored: StoredTurns) -> None:
    def broken(evidence: Evidence) -> Judgement:
        raise TimeoutError("the judge did not answer")

    turn_id = stored.observed(COMPLAINT)
    with pytest.raises(TimeoutError):
        judge_turn(stored.database, broken, turn_id)
    assert stored.load(turn_id).state == "observed"
    assert signals(stored, turn_id) == []


def test_evidence_that_arrives_while_the_judge_thinks_is_judged_too(stored: StoredTurns) -> None:
    turn_id = stored.observed(COMPLAINT)

    def slow(evidence: Evidence) -> Judgement:
        stored.add_next_state(turn_id, "Sorry, it was fine. Perfect, thanks!")
        return rules.judge(evidence)

    assert judge_turn(stored.database, slow, turn_id) == "observed"
    assert judge_turn(stored.database, rules.judge, turn_id) == "judged"
    assert [row.revision for row in signals(stored, turn_id)] == [1, 2]


def test_a_turn_that_was_erased_is_no_error(stored: StoredTurns) -> None:
    assert judge_turn(stored.database, rules.judge, "turn_gone") is None


def test_evidence_holds_what_was_asked_answered_and_believed(stored: StoredTurns) -> None:
    turn_id = stored.turn(request="What is a mutex?", reply="A lock.")
    stored.candidate(turn_id, "Nobody confirmed this.")
    stored.add_next_state(turn_id, "Thanks!")
    with stored.database.read() as session:
        evidence = load_evidence(session, turn_id)
    assert evidence.user_request == "What is a mutex?"
    assert evidence.reply_text == "A lock."
    assert [(part.role, part.text) for part in evidence.next_state] == [("user", "Thanks!")]


def test_a_request_far_back_in_a_long_history_is_found(stored: StoredTurns) -> None:
    turn_id = stored.turn()
    work = [{"role": "tool", "content": f"page {number}"} for number in range(30)]
    for asked, seen in (([*work, {"role": "user", "content": "Now?"}, *work[:5]], 8), (work, 31)):
        history = [{"role": "user", "content": "Read all."}, *asked]
        with stored.database.write() as session:
            session.get_one(Turn, turn_id).history_digest = store_history(session, history)
        with stored.database.read() as session:
            evidence = load_evidence(session, turn_id)
        assert evidence.user_request == ("Now?" if seen == 8 else "Read all.")
        assert [message.text for message in evidence.context] == [
            message["content"] for message in history[-seen:]
        ]


def test_text_of_content_in_parts() -> None:
    parts = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "two"},
    ]
    assert text_of(parts) == "one\ntwo"
    assert text_of(None) == ""


def test_the_settings_name_the_judge(stored: StoredTurns) -> None:
    assert judge_of(Settings(judge="off"), stored.database) is None
    assert judge_of(Settings(), stored.database) is not None
    with pytest.raises(SettingsError, match="AFTERTURN_JUDGE_MODEL"):
        judge_of(Settings(judge="openai", judge_model="default@v1"), stored.database)


# --- a real worker on a real broker -----------------------------------------------------------


@contextmanager
def worker(
    stored: StoredTurns, folder: Path, broker_url: str, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    ready = folder / "extractor.ready"
    ready.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_BROKER_URL": broker_url,
        "AFTERTURN_SWEEP_S": "0.3",
        **{f"AFTERTURN_{name.upper()}": value for name, value in settings.items()},
    }
    command = [sys.executable, "-m", "afterturn_extractor", "--ready-file", str(ready)]
    process = subprocess.Popen(command, env=environment)
    try:
        wait_until(ready.is_file)
        yield process
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) in (0, -signal.SIGKILL)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def started_rounds(session: Session) -> list[Round]:
    return list(session.exec(select(Round)))


def test_a_worker_judges_settles_and_starts_a_round(stored: StoredTurns, tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker_url:
        with worker(stored, tmp_path, broker_url, min_signals="2", idle_s="60") as process:
            told, forgotten = stored.observed(COMPLAINT), stored.observed(COMPLAINT)
            quiet = stored.turn(session_id=stored.session(last_seen_at=utc_now() - timedelta(seconds=61)))
            stored.candidate(quiet, COMPLAINT)
            wake = Wake(broker_url)
            assert wake.judge(told)
            assert wake.judge(told)
            for turn_id in (told, forgotten, quiet):
                wait_until(lambda turn_id=turn_id: stored.load(turn_id).state in ("judged", "claimed"))
                assert len(signals(stored, turn_id)) == 1
            with stored.database.read() as session:
                wait_until(lambda: len(started_rounds(session)) == 1)
            process.kill()
            process.wait()
        # What was observed while nobody worked is found by the next worker, with no message at all.
        late = stored.observed("Perfect, thanks!")
        with worker(stored, tmp_path, broker_url, min_signals="100"):
            wait_until(lambda: stored.load(late).state == "judged")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AFTERTURN_BROKER_URL", "", "AFTERTURN_BROKER_URL is empty"),
        ("AFTERTURN_SWEEP_S", "often", "AFTERTURN_SWEEP_S"),
        ("AFTERTURN_DATABASE_URL", "sqlite:///{folder}/empty.db", "run `afterturn migrate`"),
    ],
)
def test_wrong_settings_end_the_process_with_2(
    stored: StoredTurns, tmp_path: Path, name: str, value: str, said: str
) -> None:
    environment = {
        **os.environ,
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_BROKER_URL": "redis://127.0.0.1:1/0",
        name: value.format(folder=tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "afterturn_extractor"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
