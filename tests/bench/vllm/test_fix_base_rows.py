"""The correction of vLLM's CPU operators, on operators of the same form."""

import pytest
import torch
from bench.vllm.fix_base_rows import EINSUM, FIX, UnknownSource, fixed

OPERATOR = """
def {name}(inputs, lora_b_weights, output_tensor, lora_indices_tensor):
    selected_loras = lora_b_weights[lora_indices_tensor]
{einsum}    output_tensor += outputs
"""
SOURCE = "import torch\n" + "".join(
    OPERATOR.format(name=name, einsum=EINSUM) for name in ("bgmv_expand", "bgmv_shrink", "bgmv_expand_slice")
)


def added(source: str, operator: str) -> torch.Tensor:
    """What `operator` adds for a row of the last adapter and a row of the base model."""
    names: dict[str, object] = {}
    exec(source, names)
    weights = torch.stack([torch.zeros(2, 3), torch.full((2, 3), float("nan")), torch.ones(2, 3)])
    output = torch.zeros(2, 2)
    run = names[operator]
    assert callable(run)
    run(torch.ones(2, 3), weights, output, torch.tensor([2, -1]))
    return output


@pytest.mark.parametrize("operator", ["bgmv_expand", "bgmv_expand_slice"])
def test_rows_without_an_adapter_get_none(operator: str) -> None:
    assert added(SOURCE, operator).tolist() == [[3, 3], [3, 3]]
    assert added(fixed(SOURCE), operator).tolist() == [[3, 3], [0, 0]]


def test_the_second_time_nothing_changes() -> None:
    once = fixed(SOURCE)
    assert once.count(FIX) == 2
    assert fixed(once) == once


@pytest.mark.parametrize("source", ["", SOURCE.replace("einsum", "matmul")])
def test_other_sources_are_refused(source: str) -> None:
    with pytest.raises(UnknownSource):
        fixed(source)
