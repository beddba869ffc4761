"""`afterturn demo`: a throw-away install, a scripted user, rounds, swaps, and held-out figures."""

import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from openai import OpenAI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from afterturn import Afterturn, Round
from afterturn_core.errors import AfterturnError, SettingsError
from afterturn_core.settings import load_settings

from ..preparation import prepare_model
from ..supervisor import Ports, Stack
from .bystander import Bystander
from .conversation import MODEL, Said, Script, Tally, ask_held_out, talk
from .external_engine import external_engine
from .persona import PERSONAS
from .prompts import HELD_OUT, TRAINING
from .report import CurvePoint, DemoReport, Satisfied, show_report, write_report

AT_ONCE = 16  # held-out questions asked together, as many as the demo's engine runs side by side
JUDGED_S = 60.0  # a verdict by rules takes milliseconds; this is for a machine that is busy
ROUND_S = 600.0


@dataclass(frozen=True)
class DemoOptions:
    """What to show. `objective` empty: the settings' own. `engine`: `embedded` or `vllm`."""

    engine: str = "embedded"
    persona: str = "short"
    objective: str = ""
    placebo: bool = False
    seed: int = 0
    rounds: int = 5
    turns_per_round: int = 8
    report: Path = Path("demo-report.json")
    keep: Path | None = None


@dataclass
class Clock:
    """Seconds of conversation and training, without evaluation."""

    seconds: float = 0.0
    _since: float = field(default_factory=time.monotonic)

    def resume(self) -> None:
        """Count from here."""
        self._since = time.monotonic()

    def pause(self) -> None:
        """Count up to here."""
        self.seconds += time.monotonic() - self._since


class DemoFailed(AfterturnError):
    """The demo could not go on; the message says at which step."""


def main(options: DemoOptions, console: Console) -> int:
    """Run the demo; 0 only if the agent improved and no request failed."""
    settings = load_settings()
    options.report.unlink(missing_ok=True)  # whoever reads it next shall not take an older run for this one
    if options.keep is not None and options.keep.is_dir() and any(options.keep.iterdir()):
        raise SettingsError(f"--keep {options.keep}: not empty, and the demo starts from nothing")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="afterturn-demo-"))
    model = prepare_model(settings, dict(os.environ), lambda line: console.print(line, style="dim"))
    environment = {
        "AFTERTURN_MODEL": model,
        "AFTERTURN_SEED": str(options.seed),
        "AFTERTURN_ENGINE_MAX_SEQUENCES": str(AT_ONCE),
        "AFTERTURN_SWEEP_S": "1",
        # Rounds are started by the demo, each on the turns just judged.
        "AFTERTURN_MIN_SIGNALS": "1000000",
        "AFTERTURN_DATABASE_URL": "",
        "AFTERTURN_BROKER_URL": "",
        "AFTERTURN_ADMIN_KEY": "",
    }
    if options.objective:
        environment["AFTERTURN_OBJECTIVE"] = options.objective
    try:
        with external_engine(options.engine, model, folder / "adapters") as engine_url:
            environment["AFTERTURN_ENGINE_URL"] = engine_url
            report = _run(options, environment, folder, model, console)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    write_report(report, options.report)
    show_report(report, console)
    console.print(f"report: {options.report}")
    return 0 if report.passed else 1


def _run(
    options: DemoOptions, environment: dict[str, str], folder: Path, model: str, console: Console
) -> DemoReport:
    started = time.monotonic()
    persona = PERSONAS[options.persona]
    script = Script(persona, options.placebo, options.seed)
    questions = random.Random(options.seed).sample(TRAINING, len(TRAINING))
    counted, talked, clock = Tally(), Tally(), Clock()
    curve: list[CurvePoint] = []
    signals = swaps = 0
    gates: list[dict[str, object]] = []
    capability: float | None = None
    with Stack(data_dir=folder, ports=Ports.free(), env=environment) as stack:
        objective = stack.settings.objective
        client = Afterturn(stack.url, stack.api_key, stack.admin_key, keep_events=False)
        openai = OpenAI(base_url=f"{stack.url}/v1", api_key=stack.api_key, max_retries=0)
        with client, openai, _progress(console) as progress:
            task = progress.add_task("held-out questions, before", total=2 * options.rounds + 1)
            before, tally = ask_held_out(openai, persona, HELD_OUT, options.seed, AT_ONCE)
            counted.add(tally)
            with Bystander(openai) as bystander:
                for number in range(options.rounds):
                    progress.update(task, advance=1, description=f"round {number + 1}: talking and training")
                    clock.resume()
                    batch = [
                        questions[(number * options.turns_per_round + index) % len(questions)]
                        for index in range(options.turns_per_round)
                    ]
                    said, tally = talk(client, script, batch, number)
                    talked.add(tally)
                    _wait_judged(client, said)
                    done = client.rounds.wait(client.rounds.start(MODEL).id, timeout=ROUND_S, poll=0.5)
                    clock.pause()
                    if done.state == "failed":
                        raise DemoFailed(f"round {number + 1} failed: {done.error}")
                    swaps += done.state == "published"
                    signals += len(done.turn_ids) if done.state == "published" else 0
                    gates.append(_gate(done))
                    progress.update(task, advance=1, description=f"round {number + 1}: held-out questions")
                    satisfied, tally = ask_held_out(openai, persona, HELD_OUT, options.seed, AT_ONCE)
                    counted.add(tally)
                    if done.state == "published":
                        capability = _capability(gates[-1], "after")
                    curve.append(CurvePoint(signals, satisfied, capability, done.state, done.adapter or ""))
            progress.update(task, advance=1, description="done")
        counted.add(talked)
        counted.add(bystander.tally)
    return DemoReport(
        model=Path(model).name,
        engine=options.engine,
        objective=objective,
        persona=options.persona,
        placebo=options.placebo,
        seed=options.seed,
        signals=signals,
        model_calls=talked.requests,
        rounds=options.rounds,
        swaps=swaps,
        requests=counted.requests,
        failed_requests=counted.failed,
        second_client_requests=bystander.tally.requests,
        before=Satisfied(before, len(HELD_OUT)),
        after=Satisfied(curve[-1].satisfied, len(HELD_OUT)),
        capability_before=next(filter(None, (_capability(gate, "base") for gate in gates)), None),
        capability_after=curve[-1].capability,
        curve=tuple(curve),
        seconds=round(clock.seconds, 1),
        seconds_in_all=round(time.monotonic() - started, 1),
    )


def _wait_judged(client: Afterturn, said: list[Said]) -> None:
    """Wait until every turn has its signal.

    Raises:
        DemoFailed: one has none after a minute.
    """
    until = time.monotonic() + JUDGED_S
    waiting = [each.turn_id for each in said]
    while waiting:
        waiting = [one for one in waiting if client.turns.get(one).state in ("open", "observed")]
        if waiting and time.monotonic() > until:
            raise DemoFailed(f"{len(waiting)} turns have no verdict after {JUDGED_S:.0f} s")
        if waiting:
            time.sleep(0.2)


def _gate(done: Round) -> dict[str, object]:
    if not isinstance(done.gate, dict):
        raise DemoFailed(f"round {done.id} is {done.state} without a gate report: {done.error}")
    return dict(done.gate)


def _capability(gate: dict[str, object], which: str) -> float | None:
    """Share of the gate's probes solved by the `base` model or `after` the round; None if the gate
    refused the candidate before it asked them."""
    kept = gate.get("kept")
    solved = kept.get(f"solved_{which}") if isinstance(kept, dict) else None
    return solved if isinstance(solved, float) else None


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
