"""Requests of several adapters at once: each answered as if it were alone, and leaving bothers nobody."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.engine_contract.engine import Engine, Json, chat_body
from tests.engine_contract.test_adapters import new_adapter


def prompts(count: int) -> list[str]:
    return [f"{number} of the ships of the sea " * (1 + number % 3) for number in range(count)]


def test_adapters_and_base_in_one_batch_do_not_mix(weighted: Engine, tmp_path: Path) -> None:
    # More adapters than vLLM is started to hold in one batch: its fault with base rows shows only then.
    adapters = [weighted.loaded(new_adapter(weighted, tmp_path, seed, f"v{seed}")) for seed in range(1, 6)]
    wanted = [(model, prompt) for prompt in prompts(4) for model in ("base", *adapters)]

    def answer(job: tuple[str, str]) -> Json:
        model, prompt = job
        choice: Json = weighted.complete(
            model=model, prompt=prompt, max_tokens=20, return_token_ids=True, logprobs=0, ignore_eos=True
        )["choices"][0]
        return choice

    serial = [answer(job) for job in wanted]
    with ThreadPoolExecutor(len(wanted)) as pool:
        together = list(pool.map(answer, wanted))
    assert [choice["token_ids"] for choice in together] == [choice["token_ids"] for choice in serial]
    # The test is one only if the models disagree.
    assert len({tuple(choice["token_ids"]) for choice in serial[:6]}) == 6
    for one, other in zip(together, serial, strict=True):
        pairs = zip(one["logprobs"]["token_logprobs"], other["logprobs"]["token_logprobs"], strict=True)
        assert max(abs(a - b) for a, b in pairs) <= 1e-3


def test_a_seed_repeats_in_any_company(weighted: Engine) -> None:
    def answer(seed: int) -> list[int]:
        choice = weighted.chat(temperature=1.0, seed=seed, return_token_ids=True)["choices"][0]
        return list(choice["token_ids"])

    alone = [answer(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(answer, range(6))) == alone


def test_loading_while_others_are_answered_disturbs_none(weighted: Engine, tmp_path: Path) -> None:
    folders = [new_adapter(weighted, tmp_path, seed, f"v{seed}") for seed in range(1, 5)]
    alone = weighted.chat(max_tokens=200, ignore_eos=True, return_token_ids=True)["choices"][0]
    with ThreadPoolExecutor(4) as pool:
        running = [
            pool.submit(weighted.chat, max_tokens=200, ignore_eos=True, return_token_ids=True)
            for _ in range(3)
        ]
        names = [weighted.loaded(folder) for folder in folders]
        answers = [weighted.complete(model=name, max_tokens=4)["model"] for name in names]
        results = [future.result()["choices"][0]["token_ids"] for future in running]
    assert answers == names
    assert results == [alone["token_ids"]] * 3


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_leave_do_not_block_those_who_stay(weighted: Engine, stream: bool) -> None:
    """More of them than fit a batch, each asking for the longest reply there is."""
    body = chat_body(max_tokens=1900, ignore_eos=True, stream=stream, temperature=1.0)
    for seed in range(12):
        leave(weighted, {**body, "seed": seed})
    assert weighted.chat(max_tokens=2)["choices"][0]["finish_reason"] == "length"


def leave(engine: Engine, body: Json) -> None:
    """Ask, take three chunks or wait a moment, and hang up.

    Without a stream nothing is read, so that nothing depends on who of the two is quicker.
    """
    if not body["stream"]:
        connection = HTTPConnection(engine.http.base_url.host, engine.http.base_url.port)
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"}
        )
        time.sleep(0.3)
        connection.close()
        return
    with engine.http.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = response.iter_lines()
        for _ in range(6):
            next(lines)


@pytest.mark.parametrize("stream", [True, False])
def test_the_scripted_engine_counts_what_was_generated_for_nobody(scripted: Engine, stream: bool) -> None:
    def state() -> Json:
        return dict(scripted.http.get("/scripted/state").json())

    before = state()["generated_tokens"]
    messages = [{"role": "user", "content": "slow " * 100}]
    leave(scripted, chat_body(messages=messages, stream=stream, max_tokens=1000))
    deadline = time.monotonic() + 30
    while state()["running"] and time.monotonic() < deadline:
        time.sleep(0.05)
    stopped = state()
    assert stopped["running"] == 0
    assert stopped["generated_tokens"] - before < 100
