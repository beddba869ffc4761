"""The whole one-machine install: talk, complain, get a verdict, and survive the kill of every process."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from tests.acceptance.conftest import PATIENCE_S, wait_until

from afterturn import Afterturn, Turn
from afterturn_cli.supervisor import Ports, Stack

pytestmark = pytest.mark.acceptance

COMPLAINT = "That's way too long. Please answer in one short sentence."


@pytest.fixture(scope="module")
def stack(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    env = {
        "AFTERTURN_MODEL": str(tiny_model),
        "AFTERTURN_SWEEP_S": "0.5",
        "AFTERTURN_MAX_MODEL_LEN": "1024",
        "AFTERTURN_MIN_SIGNALS": "1000000",
        "AFTERTURN_ENGINE_THREADS": "1",
    }
    folder = tmp_path_factory.mktemp("install")
    with Stack(data_dir=folder, ports=Ports.free(), env=env, start_s=PATIENCE_S) as running:
        pids = running.pids
        yield running
        pids |= running.pids
    assert not [name for name, pid in pids.items() if psutil.pid_exists(pid)]


def complain(stack: Stack) -> Turn:
    """A first message, a complaint, a third message that goes on from both; gives the judged first turn."""
    with (
        OpenAI(base_url=f"{stack.url}/v1", api_key=stack.api_key, max_retries=0) as openai,
        Afterturn(stack.url, stack.api_key, stack.admin_key, keep_events=False) as client,
    ):
        messages: list[ChatCompletionMessageParam] = []
        turn_ids = []
        for text in ("What is a mutex?", COMPLAINT, "And a semaphore?"):
            messages.append({"role": "user", "content": text})
            answer = openai.chat.completions.with_raw_response.create(
                model="default", messages=messages, max_tokens=8, seed=1
            )
            turn_ids.append(answer.headers["x-turn-id"])
            reply = answer.parse().choices[0].message
            messages.append({"role": "assistant", "content": reply.content or ""})
        wait_until(lambda: client.turns.get(turn_ids[0]).state == "judged", "the complaint becomes a verdict")
        return client.turns.get(turn_ids[0])


def test_a_complaint_becomes_a_verdict_and_a_hint(stack: Stack) -> None:
    turn = complain(stack)
    assert turn.signal is not None
    assert turn.signal.verdict == -1
    assert any("one short sentence" in hint.text for hint in turn.signal.hints)
    assert turn.token_ids
    assert turn.logprobs is not None
    assert len(turn.logprobs) == len(turn.token_ids)


def test_a_streamed_reply_arrives_and_is_recorded(stack: Stack) -> None:
    with (
        OpenAI(base_url=f"{stack.url}/v1", api_key=stack.api_key, max_retries=0) as openai,
        openai.chat.completions.with_streaming_response.create(
            model="default",
            messages=[{"role": "user", "content": "Count."}],
            max_tokens=8,
            stream=True,
        ) as answer,
    ):
        turn_id = answer.headers["x-turn-id"]
        lines = [line for line in answer.iter_lines() if line.startswith("data:")]
    assert lines[-1] == "data: [DONE]"
    with Afterturn(stack.url, stack.api_key) as client:
        assert client.turns.get(turn_id).token_ids


def test_the_first_start_writes_keys_for_its_owner_only(stack: Stack) -> None:
    keys = stack.data_dir / "keys.env"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    with Afterturn(stack.url, admin_key=stack.admin_key) as client:
        assert [agent.name for agent in client.agents.list()] == ["default"]


@pytest.mark.parametrize("name", ["broker", "extractor", "gateway", "trainer", "engine"])
def test_a_killed_process_comes_back_and_the_loop_works(stack: Stack, name: str) -> None:
    restarts = stack.restart_counts[name]
    os.kill(stack.pids[name], signal.SIGKILL)
    wait_until(lambda: stack.restart_counts[name] == restarts + 1, f"{name} is started again")
    stack.wait_ready(PATIENCE_S)
    assert complain(stack).signal is not None
