"""Every way in which a judge fails, down to what is stored: no number, and judged once it works again."""

import json
import os
import signal as signals_
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from sqlmodel import col, select
from tests.broker import running_broker
from tests.served import served
from tests.stored_turns import StoredTurns

from afterturn_core.errors import SettingsError
from afterturn_core.models import JudgeCall, Signal
from afterturn_core.settings import Settings
from afterturn_engine.scripted import Reply, Script, create_app
from afterturn_engine.scripted.script import Failure
from afterturn_extractor.judging import judge_turn
from afterturn_extractor.model_judge.judge import ModelJudge
from afterturn_extractor.model_judge.server import JudgeAway

PATIENCE_S = 120.0
UNCLEAR = "Hm, the harbour has three cranes on its northern side."
COMPLAINT = "That's way too long. Please answer in one short sentence."
VOTE = json.dumps({"reason": "seen", "addressed": False, "verdict": 1, "hints": []})


def stored_signals(stored: StoredTurns, turn_id: str) -> list[Signal]:
    with stored.database.read() as session:
        found = select(Signal).where(Signal.turn_id == turn_id).order_by(col(Signal.revision))
        return list(session.exec(found))


@contextmanager
def judging(stored: StoredTurns, app: FastAPI, **settings: object) -> Iterator[ModelJudge]:
    with served(app) as url:
        about = {"judge": "openai", "judge_url": f"{url}/v1", "judge_model": "m"} | settings
        judge = ModelJudge(Settings(**about), stored.database)  # type: ignore[arg-type]
        yield judge
        judge.close()


def scripted(*replies: Reply) -> FastAPI:
    return create_app(Script(replies=replies, served_name="m"))


def answering(message: dict[str, object], finish_reason: str = "stop") -> FastAPI:
    app = FastAPI(openapi_url=None)

    @app.post("/v1/chat/completions")
    async def answer() -> dict[str, object]:
        choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish_reason}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}

    return app


def refusing(status: int, code: str) -> FastAPI:
    app = FastAPI(openapi_url=None)

    @app.post("/v1/chat/completions")
    async def answer() -> Response:
        return JSONResponse({"error": {"message": "no", "type": "t", "code": code}}, status)

    return app


NO_VOTES = {
    "words": answering({"content": "I would give it a +1."}),
    "nothing": answering({"content": None}),
    "another number": answering({"content": '{"verdict": 5}'}),
    "a number for true": answering({"content": '{"verdict": true}'}),
    "cut off": answering({"content": VOTE}, "length"),
    "refused in words": answering({"content": VOTE, "refusal": "I cannot judge people."}),
    "filtered": answering({"content": VOTE}, "content_filter"),
    "question filtered": refusing(400, "content_filter"),
    "too long": refusing(400, "context_length_exceeded"),
    "in doubt": answering({"content": VOTE.replace("1", "null")}),
}


@pytest.mark.parametrize("kind", NO_VOTES)
@pytest.mark.parametrize("said", [UNCLEAR, COMPLAINT, "Perfect, thanks!"])
def test_what_is_no_vote_is_stored_as_no_verdict(stored: StoredTurns, kind: str, said: str) -> None:
    turn_id = stored.observed(said)
    with judging(stored, NO_VOTES[kind]) as judge:
        # The user's own correction is a hint, whatever the model makes of it.
        expected = "judged" if said == COMPLAINT else "abstained"
        assert judge_turn(stored.database, judge, turn_id) == expected
    (signal,) = stored_signals(stored, turn_id)
    assert (signal.verdict, signal.source, signal.votes) == (None, "judge", [None] * 3)
    assert signal.rationale


AWAY = {
    "500": Reply(failure=Failure(kind="status", status=500)),
    "503": Reply(failure=Failure(kind="status", status=503)),
    "429 for an hour": Reply(failure=Failure(kind="status", status=429, retry_after_s=3600)),
    "401": Reply(failure=Failure(kind="status", status=401)),
    "404": Reply(failure=Failure(kind="status", status=404)),
    "cut": Reply(content=VOTE, failure=Failure(kind="cut")),
    "hangs": Reply(content=VOTE, failure=Failure(kind="hang")),
}


@pytest.mark.parametrize("kind", AWAY)
def test_a_failing_server_leaves_the_turn_waiting(stored: StoredTurns, kind: str) -> None:
    turn_id = stored.observed(COMPLAINT)
    with judging(stored, scripted(AWAY[kind]), judge_timeout_s=0.3) as judge, pytest.raises(JudgeAway):
        judge_turn(stored.database, judge, turn_id)
    assert stored_signals(stored, turn_id) == []
    assert stored.load(turn_id).state == "observed"
    with judging(stored, scripted(Reply(content=VOTE))) as judge:
        assert judge_turn(stored.database, judge, turn_id) == "judged"
    assert [signal.verdict for signal in stored_signals(stored, turn_id)] == [1]


def test_a_server_that_asks_for_an_hour_is_not_asked_again_by_anybody(stored: StoredTurns) -> None:
    app = scripted(AWAY["429 for an hour"])
    turns = [stored.observed(f"{UNCLEAR} {number}") for number in range(3)]
    with judging(stored, app) as judge:
        for turn_id in turns:
            with pytest.raises(JudgeAway, match=r"cannot be asked.*RateLimitError"):
                judge_turn(stored.database, judge, turn_id)
    assert len(app.state.engine.received) == 1


def test_threads_wait_together_for_as_long_as_one_of_them_was_told(stored: StoredTurns) -> None:
    busy = Reply(failure=Failure(kind="status", status=429, retry_after_s=2), times=1)
    asked_at: list[float] = []
    app = scripted(busy, Reply(content=VOTE))

    @app.middleware("http")
    async def note(request: object, call_next: Callable[..., object]) -> object:
        asked_at.append(time.monotonic())
        return await call_next(request)  # type: ignore[misc]

    turns = [stored.observed(f"{UNCLEAR} {number}") for number in range(4)]
    with judging(stored, app) as judge:
        judge_first = threading.Thread(target=judge_turn, args=(stored.database, judge, turns[0]))
        judge_first.start()
        while not asked_at:
            time.sleep(0.005)
        time.sleep(0.3)
        others = [
            threading.Thread(target=judge_turn, args=(stored.database, judge, turn)) for turn in turns[1:]
        ]
        for thread in others:
            thread.start()
        for thread in (judge_first, *others):
            thread.join()
    assert asked_at[1] - asked_at[0] >= 2
    for turn_id in turns:
        assert [signal.verdict for signal in stored_signals(stored, turn_id)] == [1]


def test_a_vote_that_could_not_be_read_is_not_asked_for_again(stored: StoredTurns) -> None:
    turn_id = stored.observed(UNCLEAR)
    app = scripted(
        Reply(content="Well …", times=1),
        Reply(content=VOTE, times=1),
        Reply(failure=Failure(kind="status", status=503), times=3),
        Reply(content=VOTE),
    )
    with judging(stored, app) as judge:
        with pytest.raises(JudgeAway):
            judge_turn(stored.database, judge, turn_id)
        asked = len(app.state.engine.received)
        assert judge_turn(stored.database, judge, turn_id) == "judged"
    assert len(app.state.engine.received) == asked + 1
    assert [signal.votes for signal in stored_signals(stored, turn_id)] == [[None, 1, 1]]


def test_reasons_and_hints_that_no_database_takes_are_stored_without(stored: StoredTurns) -> None:
    turn_id = stored.observed(UNCLEAR)
    told = {"reason": "a\0b\x1b", "verdict": -1, "hints": ["Name\0 the cranes."], "addressed": False}
    with judging(stored, scripted(Reply(content=json.dumps(told)))) as judge:
        assert judge_turn(stored.database, judge, turn_id) == "judged"
    (signal,) = stored_signals(stored, turn_id)
    assert signal.rationale == "ab"
    assert [hint["text"] for hint in signal.hints] == ["Name the cranes."]


def test_the_budgets_end_leaves_what_the_rules_see_and_says_so(stored: StoredTurns) -> None:
    app = scripted(Reply(content=VOTE))
    first, second = stored.observed(UNCLEAR), stored.observed(COMPLAINT)
    with judging(stored, app, judge_tokens_per_day=1) as judge:
        states = [judge_turn(stored.database, judge, turn_id) for turn_id in (first, second)]
    assert states == ["abstained", "judged"]
    assert len(app.state.engine.received) == 1
    for turn_id, verdict in ((first, None), (second, -1)):
        (signal,) = stored_signals(stored, turn_id)
        assert (signal.verdict, signal.source, signal.flags) == (verdict, "rules", ["judge_budget"])


def test_a_timeout_that_no_task_has_time_for_is_refused(stored: StoredTurns) -> None:
    about = {"judge": "openai", "judge_url": "http://127.0.0.1:9/v1", "judge_model": "m"}
    with pytest.raises(SettingsError, match="AFTERTURN_JUDGE_TIMEOUT_S"):
        ModelJudge(Settings(**about, judge_timeout_s=600), stored.database)  # type: ignore[arg-type]


# --- through real processes -------------------------------------------------------------------


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


@contextmanager
def worker(stored: StoredTurns, folder: Path, **variables: str) -> Iterator[None]:
    ready = folder / "extractor.ready"
    environment = {
        **os.environ,
        "AFTERTURN_DATABASE_URL": stored.url,
        "AFTERTURN_SWEEP_S": "0.3",
        "AFTERTURN_MIN_SIGNALS": "1000",
        "AFTERTURN_JUDGE": "openai",
        "AFTERTURN_JUDGE_MODEL": "m",
        "AFTERTURN_JUDGE_TIMEOUT_S": "1",
        **variables,
    }
    command = [sys.executable, "-m", "afterturn_extractor", "--ready-file", str(ready)]
    with (folder / "extractor.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_until(ready.is_file)
        yield
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) in (0, -signals_.SIGKILL)


@pytest.mark.parametrize("kind", ["503", "hangs"])
def test_a_worker_judges_once_what_waited_through_an_outage(
    stored: StoredTurns, tmp_path: Path, kind: str
) -> None:
    app = scripted(AWAY[kind])
    with (
        served(app) as url,
        running_broker(tmp_path / "broker") as broker_url,
        worker(stored, tmp_path, AFTERTURN_BROKER_URL=broker_url, AFTERTURN_JUDGE_URL=f"{url}/v1"),
    ):
        turns = [stored.observed(f"{UNCLEAR} {number}") for number in range(6)]
        wait_until(lambda: len(app.state.engine.received) >= 5)  # more than one judgement tries
        settled = stored.turn()
        stored.add_next_state(settled, "exit code: 0\n3 passed", role="tool")
        wait_until(lambda: stored.load(settled).state == "judged")
        assert {stored.load(turn_id).state for turn_id in turns} == {"observed"}
        script = Script(replies=(Reply(content=VOTE),), served_name="m")
        httpx.put(f"{url}/scripted/script", content=script.model_dump_json(), trust_env=False)
        wait_until(lambda: all(stored.load(turn_id).state == "judged" for turn_id in turns))
    assert (
        "Traceback" not in (tmp_path / "extractor.log").read_text()
    )  # one for each turn would hide all else
    for turn_id in turns:
        (signal,) = stored_signals(stored, turn_id)
        assert (signal.verdict, signal.votes) == (1, [1, 1, 1])
    with stored.database.read() as session:
        calls = session.exec(select(JudgeCall).where(col(JudgeCall.turn_id).in_(turns))).all()
    assert len(calls) == 3 * len(turns)
