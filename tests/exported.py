"""Adapters as `afterturn adapters export` writes them, and zip files of them, sound and not."""

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tests.tiny_model import build_tiny_adapter

from afterturn_core.base_model import model_hash

CONFIG, WEIGHTS, MANIFEST = "adapter_config.json", "adapter_model.safetensors", "manifest.json"
FILES = (CONFIG, WEIGHTS, MANIFEST)
QUERY = "base_model.model.model.layers.0.self_attn.q_proj"
Change = Callable[[Path], object]


def export_tiny(parent: Path, model: Path, name: str = "teacher@v3", seed: int = 1, rank: int = 4) -> Path:
    """A folder `parent/name` with a random adapter for a tiny model, and its manifest."""
    folder = build_tiny_adapter(parent, model, name, scale=0.3, seed=seed, rank=rank)
    return sign(folder, model_hash(str(model)), name)


def sign(folder: Path, hashed: str, name: str = "teacher@v3") -> Path:
    """Write the manifest that fits the two other files as they are."""
    files = {
        file: hashlib.sha256((folder / file).read_bytes()).hexdigest()
        for file in (CONFIG, WEIGHTS)
        if (folder / file).is_file()
    }
    about = {"name": name, "parent": "teacher@v2", "model_hash": hashed, "round_id": "round_x",
             "created_at": "2026-01-02T03:04:05+00:00", "files": files, "moments": {}}  # fmt: skip
    (folder / MANIFEST).write_text(json.dumps(about), "utf-8")
    return folder


def zipped(folder: Path) -> bytes:
    """The three files as an archive."""
    return archive({name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()})


def archive(
    entries: dict[str, bytes], mode: int = stat.S_IFREG | 0o644, packing: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive with these entries, each of this file mode."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as opened:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = packing
            opened.writestr(entry, content)
    return packed.getvalue()


def set_config(**fields: object) -> Change:
    """Change the configuration."""

    def change(folder: Path) -> None:
        settings = json.loads((folder / CONFIG).read_text("utf-8"))
        (folder / CONFIG).write_text(json.dumps(settings | fields), "utf-8")

    return change


def set_tensor(name: str, value: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Change one tensor, or add one."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        like = tensors.get(name, torch.zeros(4, 4))
        save_file(tensors | {name: value(like).contiguous()}, folder / WEIGHTS)

    return change


def drop_tensor(name: str) -> Change:
    """Leave one tensor out."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        del tensors[name]
        save_file(tensors, folder / WEIGHTS)

    return change


def with_one(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """The tensor with one value replaced."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        tensor.view(-1)[-1] = value
        return tensor

    return change
