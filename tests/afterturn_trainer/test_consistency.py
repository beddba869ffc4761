"""Engine and trainer must mean the same model, turn by turn."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.afterturn_trainer.tiny import SETTINGS, reply_logprobs, tiny_policy, tiny_sample

from afterturn_core.errors import RoundFailed
from afterturn_trainer.adapter_folder import write_adapter
from afterturn_trainer.consistency import agreement, wearing
from afterturn_trainer.load_turns import LoadedTurn
from afterturn_trainer.lora import Policy
from afterturn_trainer.update import run_update

PROMPT, REPLY = (5, 6, 7), (11, 12, 13, 2)


def trained() -> Policy:
    policy = tiny_policy()
    run_update(policy, [tiny_sample(policy, "t", 1, ((40, 41),))], SETTINGS)
    return policy


def turn(name: str, logprobs: list[float], adapter: str = "a@v2", folder: Path | None = None) -> LoadedTurn:
    return LoadedTurn(name, adapter, folder, 0, "h", PROMPT, REPLY, tuple(logprobs), None, 1, ())


def test_faithful_turns_agree_under_whoever_sampled_them(tmp_path: Path) -> None:
    """One by the parent, one by an older adapter, one by the base model: each is scored under its own."""
    older, policy = trained(), trained()
    run_update(policy, [tiny_sample(policy, "u", -1, prompt=(8, 9))], SETTINGS)
    report = run_update(trained(), [tiny_sample(older, "t", 1)], SETTINGS)
    folder = tmp_path / "v1"
    write_adapter(folder, older, report.moments, name="a@v1", parent=None, model_hash="h", round_id="r")
    with policy.base():
        base = reply_logprobs(policy, PROMPT, REPLY)
    turns = [
        turn("by-parent", reply_logprobs(policy, PROMPT, REPLY)),
        turn("by-older", reply_logprobs(older, PROMPT, REPLY), "a@v1", folder),
        turn("by-base", base, "base"),
    ]
    before = {name: weight.detach().clone() for name, weight in policy.trainable().items()}
    found = agreement(policy, turns, "a@v2", 2)
    assert (found.checked, found.disagreeing, found.unchecked) == (3, frozenset(), frozenset())
    assert found.noise < 1e-4
    assert all(torch.equal(weight, before[name]) for name, weight in policy.trainable().items())
    # and under another adapter than its own a turn does disagree
    swapped = [*turns, replace(turns[1], turn_id="wrong", adapter="a@v2", folder=None)]
    assert agreement(policy, swapped, "a@v2", 2).disagreeing == {"wrong"}


def test_one_turn_that_disagrees_is_named(tmp_path: Path) -> None:
    policy = trained()
    faithful = reply_logprobs(policy, PROMPT, REPLY)
    turns = [turn("a", faithful), turn("b", faithful), turn("c", [value - 0.2 for value in faithful])]
    assert agreement(policy, turns, "a@v2", 64).disagreeing == {"c"}


def test_many_that_disagree_fail_the_round() -> None:
    policy = trained()
    off = [value - 0.2 for value in reply_logprobs(policy, PROMPT, REPLY)]
    with pytest.raises(RoundFailed, match="do not hold the same model"):
        agreement(policy, [turn("a", off), turn("b", off)], "a@v2", 64)


def test_a_turn_whose_adapter_is_gone_cannot_be_checked() -> None:
    found = agreement(trained(), [turn("a", [-1.0] * 4, "a@v1")], "a@v2", 64)
    assert (found.checked, found.unchecked) == (0, {"a"})


def test_worn_weights_are_taken_off_again(tmp_path: Path) -> None:
    older, policy = trained(), tiny_policy()
    report = run_update(trained(), [tiny_sample(older, "t", 1)], SETTINGS)
    folder = tmp_path / "v1"
    write_adapter(folder, older, report.moments, name="a@v1", parent=None, model_hash="h", round_id="r")
    own = reply_logprobs(policy, PROMPT, REPLY)
    with wearing(policy, folder):
        assert reply_logprobs(policy, PROMPT, REPLY) == pytest.approx(reply_logprobs(older, PROMPT, REPLY))
    assert reply_logprobs(policy, PROMPT, REPLY) == own
