"""The ragged forward pass against plain transformers and PEFT."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from tests.tiny_model import build_tiny_adapter
from torch import Tensor
from transformers import AutoModelForCausalLM

from afterturn_engine.adapters import Adapters
from afterturn_engine.errors import StartFailed
from afterturn_engine.kv_cache import SequenceCache
from afterturn_engine.model import Model, Run, load_model

IDS = [1, 281, 201, 278, 2, 201, 1, 287, 75, 279, 263, 86, 201, 9, 30, 100]


def plain(model_folder: Path, adapter: Path | None = None) -> Tensor:
    network = AutoModelForCausalLM.from_pretrained(model_folder)
    if adapter is not None:
        network = PeftModel.from_pretrained(network, adapter)
    with torch.inference_mode():
        logits: Tensor = network(input_ids=torch.tensor([IDS])).logits[0]
    return logits.log_softmax(-1)


def ragged(model: Model, run_lengths: list[int], cache: SequenceCache | None = None) -> Tensor:
    cache = cache or SequenceCache(model.layers, 8)
    parts, start = [], 0
    for length in run_lengths:
        ids = IDS[start : start + length]
        parts.append(model.forward([Run(ids, cache, None, range(length))]))
        start += length
    return torch.cat(parts).log_softmax(-1)


@pytest.mark.parametrize("run_lengths", [[16], [1] * 16, [5, 1, 10], [15, 1]])
def test_any_division_of_the_prompt_gives_the_plain_log_probabilities(
    model: Model, model_folder: Path, run_lengths: list[int]
) -> None:
    torch.testing.assert_close(ragged(model, run_lengths), plain(model_folder), atol=1e-4, rtol=0)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
@pytest.mark.parametrize("rank_stabilised", [False, True])
def test_adapters_equal_peft(model: Model, model_folder: Path, tmp_path: Path, rank_stabilised: bool) -> None:
    folder = build_tiny_adapter(tmp_path, model_folder, "x@v1", scale=0.3, seed=3)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings |= {"use_rslora": rank_stabilised, "lora_alpha": 7, "lora_dropout": 0.1}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    loaded = Adapters(tmp_path, "base", model.targets, model.device, model.dtype).load("x@v1", str(folder))
    cache = SequenceCache(model.layers, 8)
    ours = model.forward([Run(IDS, cache, loaded, range(len(IDS)))]).log_softmax(-1)
    theirs = plain(model_folder, folder)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    assert (ours - plain(model_folder)).abs().max() > 0.1


def test_rows_of_a_mixed_batch_do_not_touch_each_other(model: Model, adapters: Adapters) -> None:
    a, b = adapters.load("a@v1", "a@v1"), adapters.load("b@v1", "b@v1")
    lengths = [3, 1, 7, 5, 2]
    chosen = [None, None, a, a, b]

    def run(row: int) -> Run:
        ids = IDS[row : row + lengths[row]]
        return Run(ids, SequenceCache(model.layers, 8), chosen[row], range(len(ids)))

    together = model.forward([run(row) for row in range(5)])
    alone = torch.cat([model.forward([run(row)]) for row in range(5)])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-5)


def test_an_adapter_may_change_some_modules_only(model: Model, model_folder: Path, tmp_path: Path) -> None:
    folder = build_tiny_adapter(tmp_path, model_folder, "x@v1", scale=0.3)
    file = folder / "adapter_model.safetensors"
    save_file({k: v for k, v in load_file(file).items() if "layers.1.mlp" in k}, file)
    loaded = Adapters(tmp_path, "base", model.targets, model.device, model.dtype).load("x@v1", str(folder))
    assert len(loaded.factors) == 3
    assert torch.isfinite(model.forward([Run(IDS, SequenceCache(model.layers, 8), loaded, [15])])).all()


def test_only_wanted_positions_are_computed(model: Model) -> None:
    caches = [SequenceCache(model.layers, 8) for _ in range(2)]
    runs = [Run(IDS[:5], caches[0], None, []), Run(IDS[:7], caches[1], None, [6])]
    logits = model.forward(runs)
    assert logits.shape == (1, model.vocabulary_size)
    torch.testing.assert_close(logits.log_softmax(-1)[0], ragged(model, [7])[6], atol=1e-4, rtol=0)


def test_a_folder_without_a_model_is_told_from_one(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"config\.json"):
        load_model(str(tmp_path), None)


def test_a_context_longer_than_the_models_is_refused(model_folder: Path) -> None:
    with pytest.raises(StartFailed, match="2048"):
        load_model(str(model_folder), 4096)
