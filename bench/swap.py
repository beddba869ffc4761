"""Do swaps disturb anybody? Token gaps of streaming clients, with and without swaps, training in both arms.

    python -m bench.swap [--engine embedded|vllm] [--swaps 20] [--streams 4]

Both arms run the same streams on agent `default` while rounds train, are gated and published one after
the other. They differ in one thing: in the arm *during* the rounds are those of `default`, and between
their publications it is promoted back and forth, so the streams' own adapter changes; in the arm
*without* the rounds are another agent's.
"""

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from openai import APIError, OpenAI

from afterturn import Afterturn
from afterturn_cli.demo.external_engine import external_engine
from afterturn_cli.preparation import prepare_model
from afterturn_cli.supervisor import Ports, Stack
from afterturn_core.settings import load_settings
from bench.machine import write_result

PROMPT = "Tell me a story about a lighthouse keeper."
TOKENS = 48
TURNS_PER_ROUND = 4


@dataclass
class Stream:
    """One client that streams reply after reply; gaps are seconds between tokens of one reply."""

    openai: OpenAI
    requests: int = 0
    failed: int = 0
    gaps: list[float] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        """Ask until told to stop."""
        while not stop.is_set():
            self.requests += 1
            try:
                self._one()
            except APIError:
                self.failed += 1

    def _one(self) -> None:
        finished, last = False, None
        stream = self.openai.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": PROMPT}],
            max_tokens=TOKENS,
            stream=True,
            extra_body={"ignore_eos": True},
            extra_headers={"X-Afterturn-Train": "off"},
        )
        for chunk in stream:
            if not chunk.choices or not chunk.choices[0].delta.content:
                finished = finished or bool(chunk.choices and chunk.choices[0].finish_reason)
                continue
            now = time.monotonic()
            if last is not None:
                self.gaps.append(now - last)
            last = now
            finished = finished or bool(chunk.choices[0].finish_reason)
        if not finished:
            self.failed += 1


@dataclass(frozen=True)
class Arm:
    """What one arm measured."""

    swaps: int
    requests: int
    failed: int
    gaps: tuple[float, ...]
    to_first_reply_s: tuple[float, ...]

    def gap_ms(self, share: float) -> float:
        """The quantile `share` of the gaps, milliseconds."""
        ordered = sorted(self.gaps)
        return 1000 * ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def give_signals(client: Afterturn, openai: OpenAI, agent: str, tag: str) -> None:
    """A few turns with an explicit correction each: enough for a round."""
    for number in range(TURNS_PER_ROUND + 1):  # one in ten is held out of training
        raw = openai.chat.completions.with_raw_response.create(
            model=agent,
            messages=[{"role": "user", "content": f"What is the number {tag}{number}?"}],
            max_tokens=24,
        )
        client.feedback.correct(raw.headers["x-turn-id"], "Please answer in one short sentence.")


def wait_judged(client: Afterturn, agent: str) -> None:
    """Wait until nothing of the agent waits for a verdict."""
    for _ in range(600):
        if not any(client.turns.list(agent=agent, state="observed")):
            return
        time.sleep(0.1)  # between two questions
    raise RuntimeError("the extractor gave no verdicts within a minute")


def first_reply_s(openai: OpenAI, agent: str, adapter: str) -> float:
    """Seconds until a new request is answered by `adapter`, counted from now."""
    since = time.monotonic()
    while time.monotonic() - since < 30:
        raw = openai.chat.completions.with_raw_response.create(
            model=agent,
            messages=[{"role": "user", "content": "Hello."}],
            max_tokens=1,
            extra_headers={"X-Afterturn-Store": "off"},
        )
        if raw.headers["x-adapter"] == adapter:
            return time.monotonic() - since
    raise RuntimeError(f"{adapter} did not answer within 30 s")


def measure(stack: Stack, agent: str, key: str, rounds: int, swaps: int, streams: int) -> Arm:
    """Run `rounds` rounds of `agent` under streams on `default`; swap `default` if it is that agent."""
    swapping = agent == "default"
    stop = threading.Event()
    done: list[float] = []
    swapped = 0
    base_url = f"{stack.url}/v1"
    clients = [
        Stream(OpenAI(base_url=base_url, api_key=stack.api_key, max_retries=0)) for _ in range(streams)
    ]
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    with Afterturn(stack.url, key, stack.admin_key, keep_events=False) as client:
        openai = OpenAI(base_url=base_url, api_key=key, max_retries=0)
        for thread in threads:
            thread.start()
        try:
            for number in range(rounds):
                give_signals(client, openai, agent, f"{number}-")
                wait_judged(client, agent)
                running = client.rounds.start(agent)
                share = (swaps - swapped) / (rounds - number) - 1
                swapped += _promote_while(client, running.id, math.floor(share)) if swapping else 0
                ended = client.rounds.wait(running.id, timeout=900, poll=0.05)
                if ended.state != "published":
                    print(f"round {number + 1} was {ended.state}: {ended.error}", file=sys.stderr)
                    continue
                swapped += swapping
                done.append(first_reply_s(openai, agent, str(ended.adapter)))
                print(f"{agent}: round {number + 1} of {rounds}, {swapped} swaps", flush=True)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    return Arm(
        swaps=swapped,
        requests=sum(client.requests for client in clients),
        failed=sum(client.failed for client in clients),
        gaps=tuple(itertools.chain.from_iterable(client.gaps for client in clients)),
        to_first_reply_s=tuple(done),
    )


def _promote_while(client: Afterturn, round_id: str, wanted: int) -> int:
    """Swap to the base model and back while a round trains, ending where it began: publishing needs its
    parent live."""
    live = next((each.name for each in client.adapters.list(agent="default") if each.live), None)
    made = 0
    while not (running := client.rounds.get(round_id)).ended:
        # A round whose parent is not live when it begins ends there and then: let it begin first.
        if isinstance(running.metrics, dict) and running.metrics.get("seconds"):
            break
        time.sleep(0.2)  # so that asking does not slow what is measured
    while live is not None and made + 2 <= wanted and not client.rounds.get(round_id).ended:
        client.adapters.rollback("default", to=0)
        time.sleep(0.7)  # replies begin on the one and on the other
        client.adapters.promote(live)
        time.sleep(0.7)  # as above
        made += 2
    return made


def main() -> int:
    """Measure both arms and write `bench/results/swap.json`."""
    parser = argparse.ArgumentParser(description="token gaps while adapters are swapped")
    parser.add_argument("--engine", default="embedded", choices=("embedded", "vllm"))
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=4)
    options = parser.parse_args()
    say: Callable[[str], None] = print
    model = prepare_model(load_settings(), dict(os.environ), say)
    with tempfile.TemporaryDirectory(prefix="afterturn-swap-") as name:
        folder = Path(name)
        with external_engine(options.engine, model, folder / "adapters") as engine_url:
            environment = {
                "AFTERTURN_MODEL": model,
                "AFTERTURN_ENGINE_URL": engine_url,
                "AFTERTURN_MIN_SIGNALS": "1000000",
                "AFTERTURN_SWEEP_S": "1",
            }
            with Stack(data_dir=folder, ports=Ports.free(), env=environment) as stack:
                with Afterturn(stack.url, stack.api_key, stack.admin_key) as client:
                    client.agents.create("other")
                    key = client.keys.create(agent="other", scopes=["inference", "feedback"]).key
                without = measure(stack, "other", key, max(1, options.rounds - 1), 0, options.streams)
                during = measure(
                    stack, "default", stack.api_key, options.rounds, options.swaps, options.streams
                )
    result: dict[str, object] = {
        "engine": options.engine,
        "swaps": during.swaps,
        "requests": during.requests + without.requests,
        "failed": during.failed + without.failed,
        "gap_ms_p99_during": round(during.gap_ms(0.99), 1),
        "gap_ms_p99_without": round(without.gap_ms(0.99), 1),
        "gap_ms_p50_during": round(during.gap_ms(0.5), 1),
        "gap_ms_p50_without": round(without.gap_ms(0.5), 1),
        "ratio_p99": round(during.gap_ms(0.99) / without.gap_ms(0.99), 3),
        "to_first_reply_s": round(max(during.to_first_reply_s), 3),
        "to_first_reply_median_s": round(statistics.median(during.to_first_reply_s), 3),
    }
    path = write_result("swap" if options.engine == "embedded" else f"swap-{options.engine}", result)
    for name_, value in result.items():
        print(f"{name_:26} {value}")
    print(path)
    good = during.swaps >= options.swaps and result["failed"] == 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
