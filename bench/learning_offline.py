"""Learning without the stack: one process plays agent, scripted user and trainer, to tune and to compare.

    python -m bench.learning_offline --model DIR --seeds 0 1 2 --rounds 6 --arm hybrid \
        --set learning_rate=3e-4 --out bench/results/learning_offline.jsonl

Each round the current policy answers 8 training questions, the persona reacts, the rules judge reads the
reaction, the update runs, and the new policy is asked held-out questions and capability probes. One line of
JSON per run: settings, seed and the curve after every round. The placebo draws verdict signs at random and
hears the wishes of an unrelated persona.
"""

import argparse
import dataclasses
import json
import platform
import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from afterturn_cli.demo.persona import PERSONAS, UNRELATED, Persona, Reply, on_topic
from afterturn_cli.demo.prompts import HELD_OUT, TRAINING, Question
from afterturn_extractor.evidence import Evidence, NextStatePart
from afterturn_extractor.rules import judge
from afterturn_trainer.lora import Policy, attach
from afterturn_trainer.probes import MAX_NEW_TOKENS, ProbeReply, load_probes
from afterturn_trainer.probes import report as probe_report
from afterturn_trainer.sample import Ids, Sample, make_sample, verdict_baseline
from afterturn_trainer.settings import LearningSettings
from afterturn_trainer.streams import Anchor
from afterturn_trainer.teacher_prompt import hint_note
from afterturn_trainer.update import run_update

REPLY_TOKENS = 64
NEUTRAL = Path(__file__).parent.parent / "trainer" / "afterturn_trainer" / "anchors.jsonl"


@dataclass(frozen=True)
class Drawn:
    """One sampled reply: ids with the end-of-turn token, raw log-probabilities, what the user sees."""

    ids: Ids
    logprobs: tuple[float, ...]
    reply: Reply


class Served:
    """A plain copy of the model with the policy's weights merged in: the stand-in for the engine."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        self._plain = {
            name: weight.detach().clone() for name, weight in self.model.named_parameters() if "proj" in name
        }

    def prompt(self, message: str) -> Ids:
        """Ids of a conversation of one user message, up to where the reply begins."""
        rows = [{"role": "user", "content": message}]
        text = self.tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.no_grad()
    def load(self, policy: Policy | None, scale: float = 0.0) -> None:
        """Serve W + scale·BA, or the plain base."""
        pairs: dict[str, dict[str, torch.Tensor]] = {}
        for name, weight in policy.trainable().items() if policy is not None else ():
            path, kind = name.removeprefix("base_model.model.").split(".lora_")
            pairs.setdefault(f"{path}.weight", {})[kind[0]] = weight
        for name, weight in self.model.named_parameters():
            if name in self._plain:
                weight.copy_(self._plain[name])
            if name in pairs:
                weight.add_(scale * pairs[name]["B"] @ pairs[name]["A"])

    @torch.no_grad()
    def draw(self, prompts: Sequence[Ids], temperature: float, tokens: int, seed: int) -> list[Drawn]:
        """Answer all prompts in one batch; rows that ended leave it."""
        torch.manual_seed(seed)
        shared = common_start(prompts) - 1  # the system prompt: read once for all
        cache = self.model(torch.tensor([prompts[0][:shared]]), use_cache=True, logits_to_keep=1).cache
        cache.batch_repeat_interleave(len(prompts))
        longest = max(len(prompt) for prompt in prompts) - shared
        pads = [longest + shared - len(prompt) for prompt in prompts]
        rests = [list(prompt[shared:]) for prompt in prompts]
        ids = torch.tensor([[self.end] * pad + rest for pad, rest in zip(pads, rests, strict=True)])
        mask = torch.tensor([[1] * shared + [0] * pad + [1] * (longest - pad) for pad in pads])
        rows: list[list[int]] = [[] for _ in prompts]
        scores: list[list[float]] = [[] for _ in prompts]
        alive = list(range(len(prompts)))
        step_ids, position = ids, mask.cumsum(-1).sub(1)[:, shared:]
        for _ in range(tokens):
            out = self.model(
                input_ids=step_ids,
                attention_mask=mask,
                position_ids=position,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.cache
            logits = out.logits[:, -1].float()
            if temperature > 0:
                chosen = torch.multinomial(torch.softmax(logits / temperature, -1), 1)[:, 0]
            else:
                chosen = logits.argmax(-1)
            logprobs = torch.log_softmax(logits, -1).gather(-1, chosen[:, None])[:, 0]
            for row, index in enumerate(alive):
                rows[index].append(int(chosen[row]))
                scores[index].append(float(logprobs[row]))
            going = [row for row, index in enumerate(alive) if rows[index][-1] != self.end]
            if not going:
                break
            if len(going) < len(alive):
                keep = torch.tensor(going)
                cache.batch_select_indices(keep)
                mask, chosen, position = mask[keep], chosen[keep], position[keep]
                alive = [alive[row] for row in going]
            step_ids = chosen[:, None]
            mask = torch.cat([mask, torch.ones(len(alive), 1, dtype=mask.dtype)], -1)
            position = position[:, -1:] + 1
        return [self._drawn(row, score) for row, score in zip(rows, scores, strict=True)]

    def _drawn(self, ids: list[int], logprobs: list[float]) -> Drawn:
        ended = ids[-1] == self.end
        text = self.tokenizer.decode(ids[:-1] if ended else ids)
        return Drawn(tuple(ids), tuple(logprobs), Reply(text, "stop" if ended else "length"))


def common_start(prompts: Sequence[Ids]) -> int:
    """How many ids all prompts begin with."""
    shortest = min(prompts, key=len)
    same = (len({prompt[i] for prompt in prompts}) == 1 for i in range(len(shortest)))
    return next((i for i, equal in enumerate(same) if not equal), len(shortest))


def held_out(served: Served, persona: Persona, temperature: float, seed: int) -> dict[str, Any]:
    """Satisfied and on-topic counts on the held-out questions, with the same seed before and after."""
    prompts = [served.prompt(question.text) for question in HELD_OUT]
    drawn = served.draw(prompts, temperature, REPLY_TOKENS, 10_000 + seed)
    problems = [persona.problem(q, d.reply) for q, d in zip(HELD_OUT, drawn, strict=True)]
    return {
        "n": len(HELD_OUT),
        "satisfied": problems.count(None),
        "on_topic": sum(on_topic(q, d.reply.text) for q, d in zip(HELD_OUT, drawn, strict=True)),
        "ended": sum(d.reply.finish_reason == "stop" for d in drawn),
        "words": sum(d.reply.words for d in drawn) / len(drawn),
        "problems": dict(Counter(problem for problem in problems if problem)),
        "examples": [d.reply.text for d in drawn[:6]],
    }


def capability(served: Served) -> dict[str, Any]:
    probes = load_probes()
    prompts = [served.prompt(probe.prompt) for probe in probes]
    drawn = served.draw(prompts, 0.0, MAX_NEW_TOKENS, 0)
    replies = [ProbeReply(d.reply.text, d.reply.finish_reason == "stop") for d in drawn]
    result = probe_report(probes, replies)
    return {"capability": result.solved, "looping": result.looping, "empty": result.empty}


def samples_of(
    served: Served,
    questions: Sequence[Question],
    drawn: Sequence[Drawn],
    persona: Persona,
    placebo: bool,
    chance: random.Random,
    baseline: float,
    first: int,
) -> list[Sample]:
    """One sample per turn from the persona's reactions."""
    samples = []
    for offset, (question, turn) in enumerate(zip(questions, drawn, strict=True)):
        speaker = UNRELATED if placebo else persona
        heard = speaker.react(question, turn.reply, chance).text
        told = NextStatePart("user", heard)
        signal = judge(Evidence(question.text, (), turn.reply.text, (), (told,)))
        verdict = chance.choice((-1, 1)) if placebo else signal.verdict
        teachers = [served.prompt(question.text + hint_note(hint.text, "user")) for hint in signal.hints]
        samples.append(
            make_sample(
                f"{first + offset:04d}",
                served.prompt(question.text),
                turn.ids,
                turn.logprobs,
                verdict=verdict,
                baseline=baseline,
                teacher_prompts=teachers,
            )
        )
    return samples


def neutral_anchors(served: Served, limit: int) -> list[Anchor]:
    """The neutral prompts with the base model's own greedy replies."""
    rows = [json.loads(line) for line in NEUTRAL.read_text(encoding="utf-8").splitlines()][:limit]
    prompts = [served.prompt(row["prompt"]) for row in rows]
    drawn = served.draw(prompts, 0.0, 40, 0)
    return [Anchor(f"anchor-{i}", p, d.ids) for i, (p, d) in enumerate(zip(prompts, drawn, strict=True))]


def run(served: Served, settings: LearningSettings, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One arm, one seed: the curve after every round."""
    started = time.monotonic()
    chance = random.Random(seed)
    settings = settings.with_(seed=seed)
    persona = PERSONAS[options.persona]
    questions = chance.sample(TRAINING, len(TRAINING))
    policy = attach(AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32), settings)
    scale = settings.lora_alpha / settings.lora_rank
    served.load(None)
    anchors = neutral_anchors(served, options.anchors) if settings.anchor_weight else []
    curve: list[dict[str, Any]] = []
    if options.before:
        before = held_out(served, persona, options.eval_temperature, seed) | capability(served)
        curve.append({"signals": 0} | before)
    verdicts: list[int] = []
    moments = None
    for number in range(options.rounds):
        batch = [questions[(number * options.turns + i) % len(questions)] for i in range(options.turns)]
        served.load(policy, scale)
        clock = time.monotonic()
        drawn = served.draw(
            [served.prompt(q.text) for q in batch], options.temperature, REPLY_TOKENS, 100 * seed + number
        )
        sampled_s = time.monotonic() - clock
        baseline = verdict_baseline(verdicts, settings.baseline_window, settings.baseline_shrink)
        placebo = options.arm == "placebo"
        samples = samples_of(served, batch, drawn, persona, placebo, chance, baseline, len(verdicts))
        round_settings = settings.with_(seed=1000 * seed + number)
        clock = time.monotonic()
        update = run_update(policy, samples, round_settings, moments, None, anchors)
        trained_s = time.monotonic() - clock
        moments = update.moments
        verdicts += [s.verdict for s in samples if s.verdict is not None]
        served.load(policy, scale)
        point: dict[str, Any] = {
            "signals": len(verdicts),
            "pleased": sum(s.verdict == 1 for s in samples),
            "silent": sum(not s.trainable for s in samples),
            "kl": round(update.metrics[-1].kl, 4),
            "grad_norm": [round(m.grad_norm, 4) for m in update.metrics],
            "unhinted": len(update.unhinted),
            "masked": round(update.masked, 4),
            "sample_s": round(sampled_s, 1),
            "train_s": round(trained_s, 1),
        }
        last = number == options.rounds - 1
        if last or (number + 1) % options.eval_every == 0:
            point |= held_out(served, persona, options.eval_temperature, seed)
        if last or options.probes == "each":
            point |= capability(served)
        curve.append(point)
        shown = {k: v for k, v in point.items() if k not in ("examples", "grad_norm")}
        print(json.dumps({"seed": seed, "arm": options.arm, "label": options.label} | shown), flush=True)
    return {
        "label": options.label,
        "arm": options.arm,
        "persona": options.persona,
        "seed": seed,
        "turns_per_round": options.turns,
        "temperature": options.temperature,
        "eval_temperature": options.eval_temperature,
        "anchors": len(anchors),
        "settings": dataclasses.asdict(settings),
        "curve": curve,
        "seconds": round(time.monotonic() - started, 1),
        "machine": f"{platform.machine()} {platform.processor()}".strip(),
        "torch": torch.__version__,
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
    }


def setting(text: str) -> tuple[str, Any]:
    name, value = text.split("=", 1)
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--arm", choices=("hybrid", "rl", "opd", "placebo"), default="hybrid")
    parser.add_argument("--persona", choices=sorted(PERSONAS), default="short")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--eval-temperature", type=float, default=0.7)
    parser.add_argument("--eval-every", type=int, default=1)
    parser.add_argument("--probes", choices=("each", "end"), default="end")
    parser.add_argument("--anchors", type=int, default=16)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--label", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    objective = {"placebo": "hybrid"}.get(options.arm, options.arm)
    settings = LearningSettings().with_(objective=objective, **dict(options.set))
    served = Served(options.model)
    for seed in options.seeds:
        line = run(served, settings, options, seed)
        with options.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
