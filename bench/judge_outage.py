"""The judge's server is away for ten minutes: does anybody notice, and does every verdict arrive once?

    python -m bench.judge_outage [--seconds 600] [--how refused hangs]

A whole install with scripted servers for the engine and the judge, and clients that talk all through: before,
during and after. The judge's server is away in one of two ways: nobody listens (`refused`), or it takes
requests and never answers (`hangs`). Every fourth turn calls a tool whose result needs no model: its verdict
must not wait. Exit code 1 if a request failed, or a verdict is missing or there twice.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from sqlmodel import col, func, select

from afterturn_cli.ports import free_ports
from afterturn_cli.supervisor import Ports, Stack
from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.models import JudgeCall, Signal, Turn
from afterturn_core.settings import Settings
from afterturn_engine.scripted import Reply, Script, ToolCall
from afterturn_engine.scripted.script import Failure
from bench.machine import read_result, this_machine, write_result
from bench.processes import serving
from bench.waiting import wait_until

NAME: Final = "judge_outage"
VOTE: Final = json.dumps({"reason": "it goes on", "addressed": False, "verdict": -1, "hints": ["Be brief."]})
# The rules find no opinion in these: only a model can say.
SAID: Final = ("The harbour has three cranes.", "It rains in the north.", "My sister has two bicycles.")
PAUSE_S: Final = 1.0
TALKERS: Final = 2
WARM_S: Final = 20.0
PATIENCE_S: Final = 1800.0


@dataclass(frozen=True)
class Outcome:
    """What came of one outage; times in seconds."""

    outage_s: float
    chat_requests: int
    chat_failed: int
    chat_p99_before_ms: float
    chat_p99_during_ms: float
    turns_with_a_next_state: int
    judged_by_model: int
    judged_by_rules: int
    without_signal: int
    signals_beyond_one: int
    rules_verdicts_during: int
    rules_verdict_slowest_s: float
    waiting_at_return: int
    all_arrived_after_s: float
    model_calls: int
    model_calls_needed: int


class Chat:
    """Clients that talk, one request a second each, until told to stop."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
        )
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(TALKERS)]
        self.took: list[tuple[float, float]] = []  # when it began, seconds until its end
        self.failures: Counter[str] = Counter()

    def __enter__(self) -> "Chat":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End after the conversations that are going on."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, talker: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            messages: list[dict[str, Any]] = []
            for turn, text in enumerate((*SAID, "call a tool", None)):
                last = text is None
                if text is not None:
                    about = f"{text} ({talker}.{number}.{turn})"
                    messages.append({"role": "user", "content": about})
                reply = self._ask(messages, f"{talker}-{number}", last=last)
                if reply is None:
                    break
                messages.append({key: value for key, value in reply.items() if value})
                for call in reply.get("tool_calls") or ():
                    messages.append(
                        {"role": "tool", "tool_call_id": call["id"], "content": "exit code: 0\n3 passed"}
                    )
                self._stop.wait(PAUSE_S)

    def _ask(self, messages: list[dict[str, Any]], name: str, *, last: bool) -> dict[str, Any] | None:
        headers = {"X-Session-Id": name, **({"X-Session-Done": "1"} if last else {})}
        tool = {"type": "function", "function": {"name": "test", "parameters": {"type": "object"}}}
        body = {"model": "default", "messages": messages, "max_tokens": 16, "tools": [tool]}
        begun = time.monotonic()
        try:
            answer = self._http.post("/v1/chat/completions", json=body, headers=headers)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            self.failures[f"{type(error).__name__}: {error}"[:120]] += 1
            return None
        finally:
            self.took.append((begun, time.monotonic() - begun))
        reply: dict[str, Any] = answer.json()["choices"][0]["message"]
        return reply


class JudgeServer:
    """A scripted judge that can go away in two ways and counts what it was asked."""

    def __init__(self, folder: Path, how: str) -> None:
        (self._port,) = free_ports(1)
        self._how = how
        self._script = folder / "judge.json"
        self._working = Script(replies=(Reply(content=VOTE),))
        self._silent = Script(replies=(Reply(content=VOTE, failure=Failure(kind="hang")),))
        self._script.write_text(self._working.model_dump_json())
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_before = 0
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "JudgeServer":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def go(self) -> None:
        """Be away from now on."""
        if self._how == "hangs":
            self._put(self._silent)
        else:
            self._asked_before = self.asked()
            self._end()

    def come_back(self) -> None:
        """Be there again."""
        if self._how == "hangs":
            self._put(self._working)
        else:
            self._start()

    def asked(self) -> int:
        """Votes asked for so far, those that were not answered included where they reached it."""
        state = httpx.get(f"{self.url}/scripted/state", timeout=60, trust_env=False).json()
        return self._asked_before + len(state["requests"])

    def _put(self, script: Script) -> None:
        httpx.put(
            f"{self.url}/scripted/script", content=script.model_dump_json(), trust_env=False
        ).raise_for_status()

    def _start(self) -> None:
        command = [sys.executable, "-m", "afterturn_engine.scripted", "--port", str(self._port)]
        self._process = subprocess.Popen([*command, "--script", str(self._script)])
        wait_until(self._answers, "the judge answers", patience_s=60)

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", trust_env=False).is_success
        except httpx.TransportError:
            return False


def run(how: str, seconds: float, folder: Path) -> Outcome:
    """One install, one outage."""
    (port,) = free_ports(1)
    script = folder / "engine.json"
    call = ToolCall(name="test", arguments="{}")
    script.write_text(Script(replies=(Reply(when="call a tool", tool_calls=(call,)),)).model_dump_json())
    command = [sys.executable, "-m", "afterturn_engine.scripted", "--port", str(port)]
    with (
        serving([*command, "--script", str(script)], port, "/health") as engine,
        JudgeServer(folder, how) as judge,
    ):
        variables = {
            "AFTERTURN_ENGINE_URL": engine.url,
            "AFTERTURN_JUDGE": "openai",
            "AFTERTURN_JUDGE_URL": f"{judge.url}/v1",
            "AFTERTURN_JUDGE_MODEL": "base",
            "AFTERTURN_MIN_SIGNALS": "1000000",
            "AFTERTURN_MAX_WAIT_S": "1000000",
        }
        with Stack(data_dir=folder / "data", ports=Ports.free(), env=variables) as stack:
            database = Database(stack.settings.effective_database_url)
            try:
                return _through(stack, database, judge, seconds)
            finally:
                database.close()


def _through(stack: Stack, database: Database, judge: JudgeServer, seconds: float) -> Outcome:
    with Chat(stack.url, stack.api_key) as chat:
        time.sleep(WARM_S)  # chat as it is without an outage, to compare with
        gone, gone_at = time.monotonic(), utc_now()
        judge.go()
        time.sleep(seconds)  # the outage
        during = [took for begun, took in chat.took if begun >= gone]
        before = [took for begun, took in chat.took if begun < gone]
        waiting = _waiting(database)
        judge.come_back()
        back, back_at = time.monotonic(), utc_now()
        time.sleep(WARM_S)  # chat goes on while what waited is judged
        chat.stop()
    wait_until(lambda: _waiting(database) == 0, "every verdict has arrived", patience_s=PATIENCE_S)
    with database.read() as session:
        observed = {
            row.id: row.observed_at
            for row in session.exec(select(Turn).where(col(Turn.observed_at).is_not(None))).all()
            if row.observed_at is not None
        }
        signals = session.exec(select(Signal)).all()
        calls = session.exec(select(func.count()).select_from(JudgeCall)).one()
    by_turn = Counter(signal.turn_id for signal in signals)
    sources = Counter(signal.source for signal in signals)
    quick = [
        (signal.created_at - observed[signal.turn_id]).total_seconds()
        for signal in signals
        if signal.source == "rules" and gone_at <= observed[signal.turn_id] <= back_at
    ]
    late = [
        (signal.created_at - back_at).total_seconds()
        for signal in signals
        if observed[signal.turn_id] <= back_at
    ]
    return Outcome(
        outage_s=round(back - gone, 1),
        chat_requests=len(chat.took),
        chat_failed=chat.failures.total(),
        chat_p99_before_ms=_p99_ms(before),
        chat_p99_during_ms=_p99_ms(during),
        turns_with_a_next_state=len(observed),
        judged_by_model=sources["judge"],
        judged_by_rules=sources["rules"],
        without_signal=len(set(observed) - set(by_turn)),
        signals_beyond_one=sum(n - 1 for n in by_turn.values()),
        rules_verdicts_during=len(quick),
        rules_verdict_slowest_s=round(max(quick), 2),
        waiting_at_return=waiting,
        all_arrived_after_s=round(max(late), 1),
        model_calls=judge.asked(),
        model_calls_needed=calls,
    )


def _waiting(database: Database) -> int:
    with database.read() as session:
        return session.exec(select(func.count()).select_from(Turn).where(Turn.state == "observed")).one()


def _p99_ms(times_s: list[float]) -> float:
    return round(1000 * sorted(times_s)[int(0.99 * len(times_s))], 1)


def main() -> int:
    """Run, print and keep each way's outcome under its name."""
    parser = argparse.ArgumentParser(prog="python -m bench.judge_outage", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--how", nargs="+", choices=("refused", "hangs"), default=["refused", "hangs"])
    options = parser.parse_args()
    bad = 0
    for how in options.how:
        with tempfile.TemporaryDirectory(prefix="afterturn-outage-") as name:
            outcome = run(how, options.seconds, Path(name))
        print(how, json.dumps(asdict(outcome), indent=1), flush=True)
        bad += outcome.chat_failed + outcome.without_signal + outcome.signals_beyond_one
        result = asdict(outcome) | {"votes": Settings().judge_votes, "machine": asdict(this_machine())}
        write_result(NAME, read_result(NAME) | {how: result})
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
