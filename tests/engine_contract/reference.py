"""What the numbers should be: the model computed directly with transformers, adapters merged by hand."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def teacher_forced(model_folder: Path, token_ids: Sequence[int], adapter: Path | None = None) -> list[float]:
    """Raw log p(token_t | tokens before t), t = 1 .. T-1; `adapter` adds alpha/r * B @ A to the weights."""
    model = _loaded(model_folder, adapter)
    with torch.no_grad():
        logprobs_TV = model(torch.tensor([list(token_ids)])).logits[0].log_softmax(-1)
    targets_T = torch.tensor(list(token_ids)[1:])
    taken_T = logprobs_TV[:-1].gather(1, targets_T[:, None])[:, 0]
    return [float(value) for value in taken_T]


@lru_cache(maxsize=8)
def _loaded(model_folder: Path, adapter: Path | None) -> torch.nn.Module:
    """Kept between calls: a test must not change an adapter's files and ask about them again."""
    model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    if adapter is not None:
        _merge(model, adapter)
    return model.eval()


def _merge(model: torch.nn.Module, adapter: Path) -> None:
    settings = json.loads((adapter / "adapter_config.json").read_text())
    tensors = load_file(adapter / "adapter_model.safetensors")
    weights = dict(model.named_parameters())
    for name, a_RI in tensors.items():
        if not name.endswith(".lora_A.weight"):
            continue
        b_OR = tensors[name.replace(".lora_A.", ".lora_B.")]
        target = name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight")
        weights[target].data += settings["lora_alpha"] / settings["r"] * (b_OR @ a_RI)


def largest_difference(got: Sequence[float], want: Sequence[float]) -> float:
    assert len(got) == len(want)
    return max(abs(one - other) for one, other in zip(got, want, strict=True))
