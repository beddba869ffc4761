"""An adapter that comes from elsewhere: what its three files must say to be served and trained on.

Nothing here needs torch. What only the base model can tell, names and shapes of its layers, the engine
checks when it loads the adapter.
"""

import hashlib
import json
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import AdapterError

CONFIG, WEIGHTS, MANIFEST = "adapter_config.json", "adapter_model.safetensors", "manifest.json"
FILES = (CONFIG, WEIGHTS, MANIFEST)
MAX_TEXT_BYTES = 1 << 20
MAX_RANK = 256
_MAX_HEADER_BYTES = 16 << 20
_CHUNK_VALUES = 1 << 20
_TENSOR = re.compile(r"base_model\.model\.(?P<module>[\w.]+)\.lora_(?P<factor>[AB])\.weight")
# The embeddings and the head stay the base model's: trainer and engines count on it.
_UNADAPTED = re.compile(r"(^|\.)(lm_head|embed_tokens|wte|wpe)($|\.)")
# By type: bytes of a value, and the bits that are all ones in an infinity or a NaN.
_EXPONENT = {
    "F64": (8, 0x7FF0000000000000),
    "F32": (4, 0x7F800000),
    "F16": (2, 0x7C00),
    "BF16": (2, 0x7F80),
}
# Settings that do not change what the weights mean. Whatever else is switched on is refused, so that a
# feature of tomorrow is never served mis-scaled. Dropout is only for training, and ours uses none.
_NEUTRAL = frozenset(
    {
        *("task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
        *("inference_mode", "target_modules", "exclude_modules", "lora_dropout", "layers_to_transform"),
        *("layers_pattern", "megatron_core", "eva_config", "qalora_group_size", "runtime_config"),
    }
)
_BASE_CHANGING_INITS = ("pissa", "olora", "corda", "loftq", "lora_ga")


class Manifest(BaseModel):
    """What an adapter's folder says of itself; `files` maps names to SHA-256 in hex."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$")
    model_hash: str = Field(pattern=r"^[0-9a-f]{16}$")
    files: dict[str, str]


class PeftConfig(BaseModel):
    """The part of PEFT's `adapter_config.json` that decides how the weights apply."""

    model_config = ConfigDict(extra="allow")

    peft_type: str
    r: int
    lora_alpha: float
    bias: str = "none"
    use_rslora: bool = False
    init_lora_weights: bool | str | None = True

    @property
    def scale(self) -> float:
        """PEFT's scaling: alpha / r, with rank-stabilised LoRA alpha / sqrt(r)."""
        return self.lora_alpha / (math.sqrt(self.r) if self.use_rslora else self.r)


@dataclass(frozen=True)
class CheckedAdapter:
    """A folder whose files are what its manifest says, and plain finite LoRA; `sha256` is its weights'."""

    manifest: Manifest
    sha256: str


def check_files(folder: Path) -> CheckedAdapter:
    """Check the three files of a folder, and read no other.

    Raises:
        AdapterError: with the first thing that is wrong.
    """
    manifest = _manifest(_text(folder / MANIFEST))
    if set(manifest.files) != {CONFIG, WEIGHTS}:
        raise AdapterError(f"{MANIFEST} must list {CONFIG} and {WEIGHTS}, and nothing else")
    for name, expected in manifest.files.items():
        if sha256(folder / name) != expected:
            raise AdapterError(f"{name} is not what {MANIFEST} says: its checksum differs")
    config = check_config(_text(folder / CONFIG))
    if config.use_rslora:  # engines serve it, and the trainer could not continue from it
        raise AdapterError("not supported in an adapter: use_rslora")
    check_weights(folder / WEIGHTS, config.r)
    return CheckedAdapter(manifest, manifest.files[WEIGHTS])


def check_config(content: bytes) -> PeftConfig:
    """A configuration of plain LoRA.

    Raises:
        AdapterError: it asks for what serving would not reproduce.
    """
    try:
        config = PeftConfig.model_validate(json.loads(content))
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) or "top level" for problem in error.errors())
        raise AdapterError(f"{CONFIG} is no LoRA configuration: {fields}") from None
    except (ValueError, RecursionError):
        raise AdapterError(f"{CONFIG} is not JSON") from None
    if config.peft_type != "LORA":
        raise AdapterError(f"peft_type {config.peft_type[:40]!r} is not supported, only 'LORA'")
    if not 1 <= config.r <= MAX_RANK:
        raise AdapterError(f"r: the rank {config.r} is outside 1..{MAX_RANK}")
    if not (math.isfinite(config.lora_alpha) and config.lora_alpha > 0):
        raise AdapterError("lora_alpha must be a positive number")
    if config.bias != "none":
        raise AdapterError(f"bias {config.bias[:40]!r} is not supported, only 'none'")
    start = config.init_lora_weights
    if isinstance(start, str) and start.startswith(_BASE_CHANGING_INITS):
        raise AdapterError(f"init_lora_weights {start[:40]!r} needs a changed base model")
    odd = sorted(name for name, value in (config.model_extra or {}).items() if value and name not in _NEUTRAL)
    if odd:
        raise AdapterError(f"not supported in an adapter: {', '.join(odd)[:200]}")
    return config


def check_weights(file: Path, rank: int) -> None:
    """Make sure a file is safetensors with pairs of finite LoRA factors of this rank, [R, I] and [O, R].

    Raises:
        AdapterError: with the first thing that is wrong.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        lead = stream.read(8)
        length = struct.unpack("<Q", lead)[0] if len(lead) == 8 else 0
        if not 2 <= length <= min(_MAX_HEADER_BYTES, size - 8):
            raise AdapterError(f"{WEIGHTS} is not a safetensors file")
        tensors = _header(stream.read(length), size - 8 - length)
    pairs: dict[str, set[str]] = {}
    for name, tensor in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None or _UNADAPTED.search(match["module"]):
            raise AdapterError(f"tensor {name[:120]!r} belongs to no module that adapters may change")
        if tensor.dtype not in _EXPONENT:
            raise AdapterError(f"tensor {name[:120]!r} has the type {tensor.dtype[:12]}, which is no LoRA's")
        axis = 0 if match["factor"] == "A" else 1
        if len(tensor.shape) != 2 or tensor.shape[axis] != rank:
            raise AdapterError(
                f"tensor {name[:120]!r} has the shape {list(tensor.shape)}, not of rank {rank}"
            )
        pairs.setdefault(match["module"], set()).add(match["factor"])
        _check_finite(file, name, tensor, 8 + length)
    if not pairs:
        raise AdapterError(f"{WEIGHTS} holds no LoRA tensors")
    for module, factors in pairs.items():
        if factors != {"A", "B"}:
            raise AdapterError(f"{module[:120]} has only one of its two factors")


def sha256(file: Path) -> str:
    """The checksum of a file in hex.

    Raises:
        AdapterError: it is not there.
    """
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        raise AdapterError(f"{file.name} is missing") from None


@dataclass(frozen=True)
class _Tensor:
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class _Entry(BaseModel):
    dtype: str
    shape: list[int] = Field(max_length=8)
    data_offsets: tuple[int, int]


def _header(content: bytes, data_bytes: int) -> dict[str, _Tensor]:
    """The tensors that a safetensors header lists, which must fill the file without gap or overlap."""
    found = {}
    try:
        for name, value in json.loads(content).items():
            if name != "__metadata__":
                entry = _Entry.model_validate(value)
                found[name] = _Tensor(entry.dtype, tuple(entry.shape), *entry.data_offsets)
    except (ValueError, AttributeError, RecursionError):
        raise AdapterError(f"{WEIGHTS} is not a safetensors file") from None
    place = 0
    for tensor in sorted(found.values(), key=lambda one: one.begin):
        width, _ = _EXPONENT.get(tensor.dtype, (0, 0))  # other types are refused by name afterwards
        sound = tensor.begin == place <= tensor.end and min(tensor.shape, default=1) >= 0
        if not sound or (width and tensor.end - tensor.begin != math.prod(tensor.shape) * width):
            raise AdapterError(f"{WEIGHTS} is damaged: its tensors do not lie where its header says")
        place = tensor.end
    if place != data_bytes:
        raise AdapterError(f"{WEIGHTS} is damaged: it is longer or shorter than its header says")
    return found


def _check_finite(file: Path, name: str, tensor: _Tensor, start: int) -> None:
    import numpy as np  # here: every command of the CLI would wait for it

    width, exponent = _EXPONENT[tensor.dtype]
    count = math.prod(tensor.shape)
    if count == 0:
        raise AdapterError(f"tensor {name[:120]!r} is empty")
    values = np.memmap(file, dtype=f"<u{width}", mode="r", offset=start + tensor.begin, shape=(count,))
    for at in range(0, count, _CHUNK_VALUES):
        if ((values[at : at + _CHUNK_VALUES] & exponent) == exponent).any():
            raise AdapterError(f"tensor {name[:120]!r} has values that are not finite numbers")


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(content))
    except (ValueError, RecursionError):  # pydantic's error is one
        raise AdapterError(
            f"{MANIFEST} must give name, model_hash and the checksums of {CONFIG} and {WEIGHTS}"
        ) from None


def _text(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_TEXT_BYTES + 1)
    except OSError:
        raise AdapterError(f"{file.name} is missing") from None
    if len(content) > MAX_TEXT_BYTES:
        raise AdapterError(f"{file.name} is larger than {MAX_TEXT_BYTES} bytes")
    return content
