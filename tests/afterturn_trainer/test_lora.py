"""The adapter in training: which layers, what a folder holds, which folders are refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.afterturn_trainer.tiny import SETTINGS, reply_logprobs, tiny_model, tiny_policy, tiny_sample

from afterturn_trainer.faults import Misaligned, NonFinite
from afterturn_trainer.lora import attach, projections
from afterturn_trainer.update import run_update

PROMPT, REPLY = (5, 6, 7), (11, 12, 2)


def trained_folder(folder: Path) -> Path:
    policy = tiny_policy()
    run_update(policy, [tiny_sample(policy, "t", 1)], SETTINGS)
    policy.save(folder)
    return folder


def test_all_projections_and_nothing_else() -> None:
    names = projections(tiny_model())
    assert names == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]


def test_hidden_states_predict_exactly_the_reply() -> None:
    policy = tiny_policy()
    with torch.no_grad():
        logits = tiny_model()(torch.tensor([[*PROMPT, *REPLY]])).logits[0, 2:5]
        own = policy.head(policy.hidden(PROMPT, REPLY))
    torch.testing.assert_close(own, logits, atol=1e-5, rtol=1e-5)


def test_a_fresh_adapter_is_the_base_and_a_seed_repeats_it() -> None:
    policy = tiny_policy()
    with policy.base():
        base = reply_logprobs(policy, PROMPT, REPLY)
    assert reply_logprobs(policy, PROMPT, REPLY) == base
    again, other = tiny_policy(), tiny_policy(SETTINGS.with_(seed=1))
    for name, weight in policy.trainable().items():
        torch.testing.assert_close(again.trainable()[name], weight)
    assert any(not torch.equal(other.trainable()[name], w) for name, w in policy.trainable().items())


def test_a_saved_adapter_comes_back_the_same(tmp_path: Path) -> None:
    policy = tiny_policy()
    run_update(policy, [tiny_sample(policy, "t", 1)], SETTINGS)
    policy.save(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    back = attach(tiny_model(), SETTINGS, parent=tmp_path / "a")
    trained = reply_logprobs(policy, PROMPT, REPLY)
    assert reply_logprobs(back, PROMPT, REPLY) == pytest.approx(trained, abs=1e-6)
    with policy.base():
        base = reply_logprobs(policy, PROMPT, REPLY)
    assert max(abs(a - b) for a, b in zip(reply_logprobs(back, PROMPT, REPLY), base, strict=True)) > 1e-4


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parent_with_one_bad_number_is_refused(tmp_path: Path, value: float) -> None:
    """B33 (e)."""
    folder = trained_folder(tmp_path / "a")
    tensors = load_file(folder / "adapter_model.safetensors")
    next(iter(tensors.values()))[0, 0] = value
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(NonFinite, match="not finite"):
        attach(tiny_model(), SETTINGS, parent=folder)


def test_a_policy_with_one_bad_number_is_not_saved(tmp_path: Path) -> None:
    """B33: nothing appears on disk."""
    policy = tiny_policy()
    with torch.no_grad():
        next(iter(policy.trainable().values()))[0, 0] = float("nan")
    with pytest.raises(NonFinite):
        policy.save(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_an_adapter_with_a_dropout_is_trained_as_it_is_served(tmp_path: Path) -> None:
    """B41: an imported one may name a dropout; the engine knows none."""
    plain = trained_folder(tmp_path / "a")
    folder = tmp_path / "b"
    shutil.copytree(plain, folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"lora_dropout": 0.5}))
    with_dropout = attach(tiny_model(), SETTINGS, parent=folder)
    without = attach(tiny_model(), SETTINGS, parent=plain)
    assert reply_logprobs(with_dropout, PROMPT, REPLY) == reply_logprobs(without, PROMPT, REPLY)


@pytest.mark.parametrize(
    "change", [{"use_rslora": True}, {"bias": "all"}, {"rank_pattern": {"q_proj": 64}}, {"use_dora": True}]
)
def test_an_adapter_that_serving_would_scale_otherwise_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """B41."""
    folder = tmp_path / "b"
    shutil.copytree(trained_folder(tmp_path / "a"), folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | change))
    with pytest.raises(Misaligned, match=next(iter(change))):
        attach(tiny_model(), SETTINGS, parent=folder)
