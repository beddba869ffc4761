"""Correct one fault of vLLM 0.32 on the CPU: the base model answering with an adapter's weights.

    .venv-vllm/bin/python bench/vllm/fix_base_rows.py

In a batch that holds adapters and the base model, rows of the base model carry the
adapter index -1, which the CPU's operators use to index the adapter slots: -1 is the
last slot. Until every slot has been used that slot is empty and all is well; from
then on the base model answers with somebody's adapter. (The GPU kernels skip such
rows.) This edits the operators of the environment it runs in so that rows without an
adapter get none. It does nothing the second time, and refuses sources it does not know.
The fault is known upstream (vllm-project/vllm pull requests 48421 and 49656, open).
`tests/engine_contract/test_concurrency.py` is what found it.
"""

import importlib.util
import sys
from pathlib import Path

EINSUM = '    outputs = torch.einsum("bi, boi -> bo", inputs, selected_loras)\n'
FIX = "    outputs = outputs.masked_fill((lora_indices_tensor < 0).unsqueeze(1), 0)\n"
# Of the three operators with this line the first one, which shrinks, may compute what it likes for
# such rows: the other two add its result to the output, and only they decide.
ADDING = ("def bgmv_expand(", "def bgmv_expand_slice(")


class UnknownSource(Exception):
    """The operators are not those this fix was written for."""


def operators() -> Path:
    """Where the environment's vLLM keeps them; nothing of vLLM is run."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise UnknownSource("vLLM is not installed here")
    return Path(found.origin).parent / "lora" / "ops" / "torch_ops" / "lora_ops.py"


def fixed(source: str) -> str:
    """`source` with both adding operators corrected; unchanged if they are already."""
    for operator in ADDING:
        start = source.find(operator)
        at = source.find(EINSUM, start)
        if start < 0 or at < 0 or "\ndef " in source[start:at]:
            raise UnknownSource(f"no {operator.split('(')[0]} as in vLLM 0.32")
        after = at + len(EINSUM)
        if not source.startswith(FIX, after):
            source = source[:after] + FIX + source[after:]
    return source


def main() -> int:
    try:
        path = operators()
        before = path.read_text()
        after = fixed(before)
    except UnknownSource as error:
        print(f"cannot correct vLLM's CPU adapters: {error}", file=sys.stderr)
        return 1
    if after != before:
        path.write_text(after)
    print("base rows: already correct" if after == before else "base rows: corrected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
