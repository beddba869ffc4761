"""Loaded LoRA adapters: strict intake from a folder, immutable once in, known by a name."""

import itertools
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from torch import Tensor

from afterturn_core.adapter_files import CONFIG, MAX_TEXT_BYTES, WEIGHTS, PeftConfig, check_config
from afterturn_core.errors import AdapterError
from afterturn_engine.errors import AdapterRefused, NotFound

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
_MAX_WEIGHTS_BYTES = 4 << 30
_TENSOR_NAME = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<factor>[AB])\.weight")


@dataclass(frozen=True)
class Factors:
    """One module's update x [.., I] -> x @ down @ up, the scale already in `up`."""

    down: Tensor  # [I, R]
    up: Tensor  # [R, O]


@dataclass(frozen=True, eq=False)
class Adapter:
    """An immutable adapter. `serial` is never reused, not even when a name is."""

    name: str
    path: str
    serial: int
    factors: Mapping[str, Factors]


@dataclass(frozen=True)
class Target:
    """A module of the base model that adapters may change."""

    size_in: int
    size_out: int


class Adapters:
    """The adapters by name. Loads one at a time; sequences in flight keep the object they started with."""

    def __init__(
        self,
        root: Path,
        base_name: str,
        targets: Mapping[str, Target],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._base_name = base_name
        self._targets = targets
        self._device = device
        self._dtype = dtype
        self._loaded: dict[str, Adapter] = {}
        self._serials = itertools.count(1)
        self._one_load = threading.Lock()

    def get(self, name: str) -> Adapter | None:
        return self._loaded.get(name)

    def listing(self) -> list[Adapter]:
        return list(self._loaded.values())

    def load(self, name: str, path: str) -> Adapter:
        """Read, check and register an adapter; reads each of its two files once.

        Raises AdapterRefused with the reason, NotFound for a folder that is not there. A failed load
        changes nothing.
        """
        if not name or not path:
            raise AdapterRefused("Both 'lora_name' and 'lora_path' must be provided.")
        if NAME_PATTERN.fullmatch(name) is None:
            raise AdapterRefused(f"lora_name must match {NAME_PATTERN.pattern}", param="lora_name")
        if name == self._base_name:
            raise AdapterRefused(f"The lora adapter '{name}' conflicts with a served base model.")
        with self._one_load:
            if name in self._loaded:
                raise AdapterRefused(f"The lora adapter '{name}' has already been loaded.")
            folder = self._inside_root(path)
            if not (folder / CONFIG).is_file():
                raise NotFound(f"Loading lora {name} failed: No adapter found for {path}")
            settings = _settings(_read(folder / CONFIG, MAX_TEXT_BYTES))
            factors = self._factors(settings, _tensors(_read(folder / WEIGHTS, _MAX_WEIGHTS_BYTES)))
            adapter = Adapter(name, path, next(self._serials), factors)
            self._loaded[name] = adapter
            return adapter

    def unload(self, name: str) -> Adapter:
        """Forget a name; replies in flight on it end on it."""
        if not name:
            raise AdapterRefused("'lora_name' needs to be provided to unload a LoRA adapter.")
        adapter = self._loaded.pop(name, None)
        if adapter is None:
            raise NotFound(f"The lora adapter '{name}' cannot be found.")
        return adapter

    def _inside_root(self, path: str) -> Path:
        refusal = AdapterRefused("lora_path must be a folder below the adapter root", param="lora_path")
        if "\0" in path:
            raise refusal
        real = Path(os.path.realpath(self._root / path))
        if real == self._root or not real.is_relative_to(self._root):
            raise refusal
        if any(part.startswith(".") for part in real.relative_to(self._root).parts):
            raise AdapterRefused(
                "lora_path is a draft, or was put aside: it is not served", param="lora_path"
            )
        # The files themselves must not be links out of the root either.
        for name in (CONFIG, WEIGHTS):
            if Path(os.path.realpath(real / name)) != real / name:
                raise refusal
        return real

    def _factors(self, settings: PeftConfig, tensors: Mapping[str, Tensor]) -> dict[str, Factors]:
        pairs: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            match = _TENSOR_NAME.fullmatch(key)
            if match is None or match["module"] not in self._targets:
                raise AdapterRefused(f"tensor {key!r} belongs to no module that adapters may change")
            if not torch.is_floating_point(tensor) or not torch.isfinite(tensor).all():
                raise AdapterRefused(f"tensor {key!r} has values that are not finite numbers")
            pairs.setdefault(match["module"], {})[match["factor"]] = tensor
        if not pairs:
            raise AdapterRefused(f"{WEIGHTS} holds no LoRA tensors")
        return {module: self._pair(module, pair, settings) for module, pair in pairs.items()}

    def _pair(self, module: str, pair: Mapping[str, Tensor], settings: PeftConfig) -> Factors:
        target = self._targets[module]
        expected = {"A": (settings.r, target.size_in), "B": (target.size_out, settings.r)}
        for factor, shape in expected.items():
            if factor not in pair:
                raise AdapterRefused(f"{module} has no lora_{factor} tensor")
            found = tuple(pair[factor].shape)
            if found != shape:
                raise AdapterRefused(f"{module} lora_{factor} has shape {list(found)}, not {list(shape)}")
        down_IR = pair["A"].to(self._device, self._dtype).t().contiguous()
        up_RO = (pair["B"].to(self._device, torch.float32) * settings.scale).to(self._dtype).t().contiguous()
        return Factors(down_IR, up_RO)


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > limit:
                raise AdapterRefused(f"{path.name} is larger than {limit} bytes")
            return stream.read()
    except OSError as error:
        raise AdapterRefused(f"{path.name} cannot be read: {error.strerror}") from error


def _settings(content: bytes) -> PeftConfig:
    try:
        return check_config(content)
    except AdapterError as error:
        raise AdapterRefused(error.message) from error


def _tensors(content: bytes) -> dict[str, Tensor]:
    try:
        return parse_safetensors(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise AdapterRefused(f"{WEIGHTS} is not a safetensors file: {error}") from error
