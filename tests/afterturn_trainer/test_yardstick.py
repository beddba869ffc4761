"""What an update moved, against plain log-softmax over everything at once."""

import pytest
import torch
from tests.afterturn_trainer.tiny import SETTINGS, reply_logprobs, tiny_policy, tiny_sample

from afterturn_trainer.update import run_update
from afterturn_trainer.yardstick import Passage, read, shifts

PASSAGES = [Passage("a", (5, 6, 7), (11, 12, 13, 2)), Passage("b", (9,), (20, 2), -1)]


def test_log_probabilities_and_kl_are_exact_in_any_chunking() -> None:
    policy = tiny_policy()
    before = read(policy, PASSAGES, {})
    live = [reply_logprobs(policy, p.prompt_ids, p.reply_ids) for p in PASSAGES]
    run_update(policy, [tiny_sample(policy, "t", 1, ((40, 41),))], SETTINGS)
    new = [reply_logprobs(policy, p.prompt_ids, p.reply_ids) for p in PASSAGES]
    with torch.no_grad():
        new_TV = torch.log_softmax(
            policy.head(policy.hidden(PASSAGES[0].prompt_ids, PASSAGES[0].reply_ids)), -1
        )
        live_TV = torch.log_softmax(policy.head(before[0]), -1)
    kl_T = (new_TV.exp() * (new_TV - live_TV)).sum(-1)
    for chunk in (1, 3, 100):
        found = shifts(policy, PASSAGES, before, chunk)
        for shift, live_T, new_T in zip(found, live, new, strict=True):
            assert shift.live_T == pytest.approx(live_T, abs=1e-5)
            assert shift.new_T == pytest.approx(new_T, abs=1e-5)
        assert found[0].kl_T == pytest.approx(kl_T.tolist(), abs=1e-5)
        assert max(found[0].kl_T) > 1e-4


def test_nothing_moved_reads_as_nothing() -> None:
    policy = tiny_policy()
    for shift in shifts(policy, PASSAGES, read(policy, PASSAGES, {}), 2):
        assert shift.new_T == shift.live_T
        assert max(map(abs, shift.kl_T)) < 1e-6
