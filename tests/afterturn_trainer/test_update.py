"""Rounds on a tiny random model: what moves, what must not, and what fails loudly."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.afterturn_trainer.tiny import SETTINGS, reply_logprobs, tiny_model, tiny_policy, tiny_sample

from afterturn_trainer.adapter_folder import moments_in, write_adapter
from afterturn_trainer.faults import LearningFault, Misaligned, NonFinite, NothingToLearn
from afterturn_trainer.lora import Policy, attach
from afterturn_trainer.moments import Moments
from afterturn_trainer.sample import Sample, make_sample
from afterturn_trainer.streams import Anchor, fill
from afterturn_trainer.update import run_update

HINT = ((40, 41),)


def weights_of(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.trainable().items()}


def mean_logprob(policy: Policy, sample: Sample) -> float:
    values = reply_logprobs(policy, sample.prompt_ids, sample.reply_ids)
    return sum(values) / len(values)


@pytest.mark.parametrize("verdict", [-1, 1])
def test_a_single_verdict_moves_its_reply_in_its_direction(verdict: int) -> None:
    """B20: a batch of one is no group to cancel itself in."""
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", verdict)
    before = mean_logprob(policy, sample)
    run_update(policy, [sample], SETTINGS.with_(objective="rl", beta=0.0, epochs=2))
    assert verdict * (mean_logprob(policy, sample) - before) > 0.01


def test_an_outcomes_weight_is_in_the_verdict_stream_and_in_no_hint() -> None:
    """Three tokens that the policy itself sampled, so c = 1: A = (1 + .25)·.5 = .625 on each."""
    policy = tiny_policy()
    prompt, reply = (5, 6, 7), (11, 12, 2)
    logprobs = reply_logprobs(policy, prompt, reply)
    whole, half = (
        fill(
            policy,
            make_sample(
                "t",
                prompt,
                reply,
                logprobs,
                verdict=1,
                baseline=-0.25,
                weight=weight,
                teacher_prompts=[(*prompt, 40, 41)],
            ),
            SETTINGS,
        ).streams
        for weight in (1.0, 0.5)
    )
    assert whole.verdict_T.tolist() == pytest.approx([1.25] * 3, abs=1e-5)
    assert half.verdict_T.tolist() == pytest.approx([0.625] * 3, abs=1e-5)
    assert half.hint_TK.any()
    assert torch.equal(half.hint_TK, whole.hint_TK)


def test_a_one_sided_batch_still_pushes() -> None:
    """B20: four praised turns, zero variance, no 0/0."""
    policy = tiny_policy()
    samples = [tiny_sample(policy, str(i), 1, prompt=(3, 4 + i)) for i in range(4)]
    before = [mean_logprob(policy, sample) for sample in samples]
    report = run_update(policy, samples, SETTINGS.with_(objective="rl", epochs=2))
    assert all(torch.isfinite(weight).all() for weight in weights_of(policy).values())
    assert sum(mean_logprob(policy, s) for s in samples) > sum(before)
    assert report.turns == 4


def test_a_turn_without_a_verdict_is_left_out_not_poison() -> None:
    """B20: [1, None, −1]."""
    policy = tiny_policy()
    samples = [tiny_sample(policy, name, verdict) for name, verdict in (("a", 1), ("b", None), ("c", -1))]
    samples[2] = replace(samples[2], prompt_ids=(9, 9))
    report = run_update(policy, samples, SETTINGS)
    assert report.unused == ("b",)
    assert report.turns == 2


def test_a_hint_pulls_towards_the_hinted_model() -> None:
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", None, HINT)

    def distance(policy: Policy) -> float:
        with torch.no_grad():
            hidden = policy.hidden(sample.prompt_ids, sample.reply_ids)
            with policy.base():
                hinted = policy.hidden(sample.teacher_prompts[0], sample.reply_ids)
            student = torch.log_softmax(policy.head(hidden), -1)
            teacher = torch.log_softmax(policy.head(hinted), -1)
            return float((student.exp() * (student - teacher)).sum(-1).mean())

    before = distance(policy)
    for distillation in ("topk", "reverse_kl"):
        knobs = SETTINGS.with_(objective="opd", beta=0.0, top_k=8, learning_rate=3e-3, epochs=4)
        policy = tiny_policy()
        run_update(policy, [sample], knobs.with_(distillation=distillation))
        assert distance(policy) < 0.9 * before, distillation


def test_hints_reach_the_teacher_only() -> None:
    """B20: the student is read under its own prompt, whatever the hints say."""
    policy = tiny_policy()
    plain = tiny_sample(policy, "t", -1)
    with_hint = tiny_sample(policy, "t", -1, HINT)
    assert with_hint.prompt_ids == plain.prompt_ids
    streams, unhinted = (fill(policy, sample, SETTINGS).streams for sample in (with_hint, plain))
    assert streams.prompt_ids == plain.prompt_ids
    torch.testing.assert_close(streams.old_T, unhinted.old_T)
    torch.testing.assert_close(streams.base_TD, unhinted.base_TD)


def test_an_unhinted_turn_is_not_pulled_to_any_teacher() -> None:
    policy = tiny_policy()
    filled = fill(policy, tiny_sample(policy, "t", 1), SETTINGS)
    assert filled.hint is None
    assert not filled.streams.hint_TK.any()


def test_tokens_from_another_policy_are_masked_on_both_sides() -> None:
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", 1)
    b = sample.engine_logprobs
    # ratios π_old/b of e^0, e^−1 = .37, e^+1 = 2.7 and e^.5 = 1.65
    shifted = replace(sample, engine_logprobs=(b[0], b[1] + 1.0, b[2] - 1.0, b[3] - 0.5))
    streams = fill(policy, shifted, SETTINGS).streams
    ratio_T = (streams.old_T - torch.tensor(shifted.engine_logprobs)).exp()
    kept_T = (ratio_T >= 0.5) & (ratio_T <= 2.0)
    torch.testing.assert_close(streams.verdict_T, torch.where(kept_T, ratio_T, torch.zeros(4)))
    assert not bool(kept_T[2])
    assert bool(kept_T[0])


def test_masked_tokens_change_nothing() -> None:
    """B23: a token the policy did not choose carries no loss of any kind."""
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", 1, HINT)
    streams = fill(policy, replace(sample, loss_mask=(True, False, True, True)), SETTINGS).streams
    assert float(streams.verdict_T[1]) == 0.0
    assert not streams.hint_TK[1].any()
    assert not bool(streams.mask_T[1])


def test_overfitting_one_pair_answers_and_stops() -> None:
    """B23: the sampled end-of-turn token is trained although it is also the pad token."""
    policy = tiny_policy(SETTINGS.with_(lora_rank=8))
    prompt, answer = (5, 6, 7), (44, 2)
    knobs = SETTINGS.with_(objective="rl", beta=0.0, clip_high=8.0, epochs=3)
    for number in range(12):
        logprobs = reply_logprobs(policy, prompt, answer)
        sample = make_sample(f"t{number}", prompt, answer, logprobs, verdict=1)
        run_update(policy, [sample], knobs)
    ids: list[int] = []
    while len(ids) < 3 and (not ids or ids[-1] != 2):
        with torch.no_grad():
            ids.append(int(policy.head(policy.hidden(prompt, (*ids, 0)))[-1].argmax()))
    assert tuple(ids) == answer


@settings(max_examples=5, deadline=None)
@given(order=st.permutations(range(4)))
def test_the_order_of_samples_changes_nothing(order: list[int]) -> None:
    def trained(indices: list[int]) -> dict[str, torch.Tensor]:
        policy = tiny_policy()
        hints = ((), HINT, (), HINT)
        samples = [tiny_sample(policy, f"t{i}", (-1) ** i, hints[i], (3, 9 + i)) for i in range(4)]
        run_update(policy, [samples[i] for i in indices], SETTINGS)
        return weights_of(policy)

    torch.testing.assert_close(trained(order), trained([0, 1, 2, 3]))


def test_five_steps_a_restart_and_five_more_are_ten_steps(tmp_path: Path) -> None:
    knobs = SETTINGS.with_(epochs=5, minibatch=4, learning_rate=3e-3)

    def samples(policy: Policy, number: int) -> list[Sample]:
        return [
            tiny_sample(policy, f"{number}{i}", (-1) ** i, HINT, prompt=(3, 9 + i, number)) for i in range(3)
        ]

    straight = tiny_policy(knobs)
    first = run_update(straight, samples(straight, 1), knobs)
    second = run_update(straight, samples(straight, 2), knobs, first.moments)
    assert (first.moments.step, second.moments.step) == (5, 10)

    stopped = tiny_policy(knobs)
    report = run_update(stopped, samples(stopped, 1), knobs)
    folder = tmp_path / "agent" / "v1"  # written and read as rounds do it
    about = {"name": "agent@v1", "parent": None, "model_hash": "h", "round_id": "r"}
    write_adapter(folder, stopped, report.moments, **about)  # type: ignore[arg-type]
    again = attach(tiny_model(), knobs, folder)
    resumed = run_update(again, samples(again, 2), knobs, moments_in(folder))
    assert resumed.moments.step == 10
    torch.testing.assert_close(weights_of(again), weights_of(straight), atol=1e-6, rtol=0)
    torch.testing.assert_close(resumed.moments.first, second.moments.first, atol=1e-6, rtol=0)
    torch.testing.assert_close(resumed.moments.second, second.moments.second, atol=1e-6, rtol=0)

    forgetful = attach(tiny_model(), knobs, folder)
    run_update(forgetful, samples(forgetful, 2), knobs)
    right = weights_of(straight)
    gaps = [float((weight - right[name]).abs().max()) for name, weight in weights_of(forgetful).items()]
    assert max(gaps) > 1e-4  # without the moments it would have been another adapter


def test_moments_of_another_adapter_are_refused() -> None:
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", 1)
    with pytest.raises(Misaligned, match="another adapter"):
        run_update(policy, [sample], SETTINGS, Moments(3, {}, {}))
    zeros = {name: torch.zeros_like(weight) for name, weight in policy.trainable().items()}
    poisoned = {name: torch.full_like(value, float("nan")) for name, value in zeros.items()}
    with pytest.raises(NonFinite, match="moments"):
        run_update(policy, [sample], SETTINGS, Moments(3, zeros, poisoned))


def test_nothing_to_learn_is_said_so() -> None:
    policy = tiny_policy()
    with pytest.raises(NothingToLearn, match="no turn"):
        run_update(policy, [tiny_sample(policy, "t", None)], SETTINGS)
    with pytest.raises(NothingToLearn, match="no turn"):
        run_update(policy, [tiny_sample(policy, "t", None, HINT)], SETTINGS.with_(min_hint_effect=1e9))
    with pytest.raises(NothingToLearn, match="no turn"):
        run_update(policy, [tiny_sample(policy, "t", None, HINT)], SETTINGS.with_(objective="rl"))


def test_a_step_without_any_gradient_fails_the_round() -> None:
    policy = tiny_policy()
    sample = tiny_sample(policy, "t", 1)
    with torch.no_grad():
        for weight in policy.trainable().values():
            weight.zero_()  # A = 0 and B = 0: a point no gradient leads away from
    with pytest.raises(NothingToLearn, match="zero"):
        run_update(policy, [sample], SETTINGS)


@pytest.mark.parametrize("rate", [1e3, float("inf")])
def test_a_rate_that_breaks_the_weights_fails_the_round(rate: float) -> None:
    """B33 (c): the reason is raised; nothing is recorded as success."""
    policy = tiny_policy()
    samples = [tiny_sample(policy, str(i), -1, HINT, prompt=(3, 4 + i)) for i in range(4)]
    with pytest.raises(LearningFault):
        run_update(policy, samples, SETTINGS.with_(learning_rate=rate * 1e30, epochs=4, minibatch=1))


def test_an_anchor_holds_the_policy_back() -> None:
    """KL to base on a neutral prompt, after a deliberately violent round."""
    prompt, reply = (20, 21), (22, 23, 24)

    def drift(weight: float) -> float:
        policy = tiny_policy()
        samples = [tiny_sample(policy, "t", 1)]
        knobs = SETTINGS.with_(objective="rl", beta=0.0, anchor_weight=weight, epochs=20, length_norm=4)
        run_update(policy, samples, knobs, anchors=[Anchor("a", prompt, reply)])
        now = torch.tensor(reply_logprobs(policy, prompt, reply))
        with policy.base():
            return float((now - torch.tensor(reply_logprobs(policy, prompt, reply))).abs().mean())

    assert drift(100.0) < 0.5 * drift(0.0)


def test_steps_report_what_they_did() -> None:
    policy = tiny_policy()
    seen = []
    samples = [tiny_sample(policy, str(i), -1, HINT, prompt=(3, 4 + i)) for i in range(3)]
    report = run_update(policy, samples, SETTINGS.with_(epochs=2), on_progress=seen.append)
    assert tuple(seen) == report.metrics
    assert [m.step for m in seen] == [1, 2, 3, 4]  # two minibatches an epoch: 2 + 1 turns
    assert sorted(m.turns for m in seen) == [1, 1, 2, 2]
    assert report.tokens == 12
    assert seen[0].kl == pytest.approx(0.0, abs=1e-6)  # a fresh adapter is the base
    assert seen[-1].kl > 0
    assert all(m.grad_norm > 0 for m in seen)
