"""The loss on three tokens, with the numbers worked out by hand."""

from dataclasses import replace
from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from afterturn_trainer.losses import Gathered, Streams, exact_kl, gather, hint_term, turn_terms, verdict_term
from afterturn_trainer.sample import make_sample
from afterturn_trainer.settings import LearningSettings

KNOBS = LearningSettings(w_rl=0.5, w_opd=2.0, beta=0.25, length_norm=256)


def logs(*probabilities: float) -> Tensor:
    return torch.tensor([log(value) for value in probabilities])


def three_tokens(advantage: float = 0.0) -> Streams:
    """π_old = .5, .25, .1 on the sampled tokens; a support of two tokens at each position."""
    return Streams(
        turn_id="t",
        prompt_ids=(1,),
        reply_ids=(4, 5, 2),
        mask_T=torch.tensor([True, True, True]),
        old_T=logs(0.5, 0.25, 0.1),
        verdict_T=torch.full((3,), advantage),
        support_TK=torch.tensor([[4, 6], [5, 6], [2, 6]]),
        old_TK=torch.stack([logs(0.5, 0.25), logs(0.25, 0.25), logs(0.1, 0.2)]),
        hint_TK=torch.zeros(3, 2),
        base_TD=torch.zeros(3, 1),
        teacher_TD=None,
        kl_weight=KNOBS.beta,
    )


def now(sampled: Tensor, support: Tensor | None = None, kl: Tensor | None = None) -> Gathered:
    zeros = torch.zeros(3)
    on_support = torch.zeros(3, 2) if support is None else support
    return Gathered(sampled, on_support, zeros if kl is None else kl, zeros)


def test_a_praised_turn_is_pushed_up_until_the_upper_clip() -> None:
    # ρ = .6/.5, .2/.25, .2/.1 = 1.2, .8, 2.0; A = +1: min(ρ, clip(ρ, .8, 1.28)) = 1.2, .8, 1.28; sum 3.28.
    loss = verdict_term(logs(0.6, 0.2, 0.2), three_tokens(1.0), KNOBS)
    assert float(loss) == pytest.approx(-3.28 / 256, abs=1e-7)


def test_a_criticised_turn_is_not_clipped_where_it_became_likelier() -> None:
    # A = −1: −min(−ρ, −clip(ρ)) = max(ρ, clip(ρ)) = 1.2, .8, 2.0; sum 4.0.
    loss = verdict_term(logs(0.6, 0.2, 0.2), three_tokens(-1.0), KNOBS)
    assert float(loss) == pytest.approx(4.0 / 256, abs=1e-7)


def test_an_outcomes_weight_scales_the_verdict_term_and_not_the_hint_term() -> None:
    # r = −1, baseline −.5: A = −.5; a quarter of it is −.125. ρ = 1.2, .8, 2.0 as above: .125·4.0 = .5.
    sample = make_sample("t", [1], [4, 5, 2], [-1.0] * 3, verdict=-1, baseline=-0.5, weight=0.25)
    assert sample.advantage == -0.125
    streams = replace(three_tokens(sample.advantage), hint_TK=torch.full((3, 2), 0.1))
    terms = turn_terms(now(logs(0.6, 0.2, 0.2), streams.old_TK), streams, KNOBS)
    # Weights .5 and 2; the hint term is −6·.1 whatever the weight.
    assert float(terms.verdict) == pytest.approx(0.5 * 0.5 / 256, abs=1e-7)
    assert float(terms.hint) == pytest.approx(2 * -0.6 / 256, abs=1e-7)


def test_clipped_tokens_carry_no_gradient() -> None:
    sampled = logs(0.6, 0.2, 0.2).requires_grad_()
    verdict_term(sampled, three_tokens(1.0), KNOBS).backward()
    # d(−ρ/256)/dℓ = −ρ/256 inside the clip; the third token (ρ = 2) is beyond it.
    assert sampled.grad is not None
    assert sampled.grad.tolist()[0] == pytest.approx(-1.2 / 256, abs=1e-7)
    assert sampled.grad.tolist()[2] == 0.0


def test_a_criticised_turn_the_policy_has_left_stops_contributing() -> None:
    # Every token a factor e^.6 less likely: mean log π_old − log π = .6 > δ = .5.
    left = three_tokens(-1.0).old_T - 0.6
    assert float(verdict_term(left, three_tokens(-1.0), KNOBS)) == 0.0
    # At .4 it still counts: ρ = e^−.4 = .670 is below the lower clip: max(ρ, .8) = .8 each.
    near = three_tokens(-1.0).old_T - 0.4
    assert float(verdict_term(near, three_tokens(-1.0), KNOBS)) == pytest.approx(2.4 / 256, abs=1e-7)
    # Praise never stops: ρ = e^−.6 = .5488, min(ρ, .8) = ρ.
    praised = verdict_term(left, three_tokens(1.0), KNOBS)
    assert float(praised) == pytest.approx(-3 * exp(-0.6) / 256, abs=1e-7)


def test_hints_move_the_support_and_are_clipped_like_ppo() -> None:
    hint_TK = torch.tensor([[-0.5, 0.25], [0.0, 0.4], [1.0, -0.2]])
    # π now on S_t: .6/.5 = 1.2, .2/.25 = .8 | .25/.25 = 1, .5/.25 = 2 | .05/.1 = .5, .1/.2 = .5
    support = torch.stack([logs(0.6, 0.2), logs(0.25, 0.5), logs(0.05, 0.1)])
    streams = replace(three_tokens(), hint_TK=hint_TK)
    # max(−Aρ, −A clip): .5·1.2=.6, −.25·.8=−.2 | 0, max(−.8, −.4·1.28=−.512)=−.512 |
    # max(−.5, −.8)=−.5, max(.2·.5, .2·.8)=.16; sum = .6 −.2 −.512 −.5 +.16 = −.452.
    loss = hint_term(now(logs(0.5, 0.25, 0.1), support), streams, KNOBS)
    assert float(loss) == pytest.approx(-0.452 / 256, abs=1e-7)


def test_terms_are_weighted_and_masked() -> None:
    streams = replace(three_tokens(1.0), mask_T=torch.tensor([True, False, True]))
    kl = torch.tensor([0.2, 9.0, 0.4])
    terms = turn_terms(now(logs(0.6, 0.2, 0.1), streams.old_TK, kl), streams, KNOBS)
    # verdict: ρ = 1.2 and 1.0 on the two tokens that count; weights .5, 2, β .25.
    assert float(terms.verdict) == pytest.approx(0.5 * -2.2 / 256, abs=1e-7)
    assert float(terms.hint) == 0.0
    assert float(terms.kl) == pytest.approx(0.25 * 0.6 / 256, abs=1e-7)
    assert float(terms.total) == pytest.approx((-1.1 + 0.15) / 256, abs=1e-7)


def test_rl_and_opd_alone_weigh_one_and_leave_the_other_out() -> None:
    streams = replace(three_tokens(1.0), hint_TK=torch.full((3, 2), 0.1))
    gathered = now(streams.old_T, streams.old_TK)
    rl = turn_terms(gathered, streams, KNOBS.with_(objective="rl"))
    opd = turn_terms(gathered, streams, KNOBS.with_(objective="opd"))
    # ρ = 1 everywhere: verdict −3·1, hint −6·.1.
    assert (float(rl.verdict), float(rl.hint)) == (pytest.approx(-3 / 256), 0.0)
    assert (float(opd.verdict), float(opd.hint)) == (0.0, pytest.approx(-0.6 / 256))


def test_exact_kl_by_hand() -> None:
    # p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2): KL = ½ ln 2 + 0 + ¼ ln ½ = ¼ ln 2.
    kl = exact_kl(logs(0.5, 0.25, 0.25), logs(0.25, 0.25, 0.5))
    assert float(kl) == pytest.approx(0.25 * log(2), abs=1e-6)


def test_a_token_weighs_the_same_in_a_short_and_in_a_long_reply() -> None:
    """B20, length bias: five praised tokens and five hundred get the same push each."""

    def push(length: int) -> float:
        old = torch.full((length,), -1.0)
        sampled = old.clone().requires_grad_()
        ones = torch.ones(length)
        streams = replace(three_tokens(), mask_T=ones.bool(), old_T=old, verdict_T=ones)
        verdict_term(sampled, streams, KNOBS).backward()
        assert sampled.grad is not None
        return float(sampled.grad[0])

    assert push(5) == push(500) == pytest.approx(-1 / 256)


@settings(max_examples=25, deadline=None)
@given(chunk=st.integers(1, 9), length=st.integers(1, 7), seed=st.integers(0, 99))
def test_the_chunk_size_changes_neither_figures_nor_gradients(chunk: int, length: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight_VD = torch.randn(11, 4, generator=generator)
    hidden_TD = torch.randn(length, 4, generator=generator).requires_grad_()
    other_TD = torch.randn(length, 4, generator=generator)
    streams = Streams(
        turn_id="t",
        prompt_ids=(1,),
        reply_ids=tuple(range(length)),
        mask_T=torch.ones(length, dtype=torch.bool),
        old_T=torch.zeros(length),
        verdict_T=torch.zeros(length),
        support_TK=torch.zeros(length, 2, dtype=torch.long),
        old_TK=torch.zeros(length, 2),
        hint_TK=torch.zeros(length, 2),
        base_TD=other_TD,
        teacher_TD=-other_TD,
        kl_weight=0.0,
    )

    def figures(size: int) -> tuple[Tensor, Tensor]:
        gathered = gather(hidden_TD, streams, lambda rows: rows @ weight_VD.T, size)
        parts = (gathered.sampled_T, gathered.support_TK[:, 0], gathered.base_kl_T, gathered.teacher_kl_T)
        stacked = torch.stack(parts)
        (gradient,) = torch.autograd.grad(stacked.sum(), hidden_TD)
        return stacked.detach(), gradient

    whole, chunked = figures(length), figures(chunk)
    torch.testing.assert_close(whole, chunked, atol=1e-5, rtol=1e-5)
    logprobs = torch.log_softmax(hidden_TD.detach() @ weight_VD.T, -1)
    torch.testing.assert_close(whole[0][0], logprobs[range(length), range(length)])
