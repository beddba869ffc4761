"""Field cases B27, B33 and B41: what an adapter must be to come in."""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.exported import CONFIG, QUERY, WEIGHTS, drop_tensor, set_config, set_tensor, with_one
from tests.tiny_model import build_tiny_adapter

from afterturn_engine.adapters import Adapters
from afterturn_engine.errors import AdapterRefused, NotFound
from afterturn_engine.model import Model

BASE = "base_model.model"


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "one NaN": (set_tensor(f"{QUERY}.lora_B.weight", with_one(float("nan"))), "finite"),
    "one infinity": (set_tensor(f"{QUERY}.lora_A.weight", with_one(float("inf"))), "finite"),
    "wrong shape": (set_tensor(f"{QUERY}.lora_A.weight", lambda t: t[:, :-1]), "shape"),
    "rank of the tensors differs": (set_config(r=8), "shape"),
    "half a pair": (drop_tensor(f"{QUERY}.lora_B.weight"), "no lora_B"),
    "unknown module": (set_tensor(f"{BASE}.model.layers.9.mlp.up_proj.lora_A.weight", same), "no module"),
    "output head": (set_tensor(f"{BASE}.lm_head.lora_A.weight", same), "no module"),
    "embeddings": (set_tensor(f"{BASE}.model.embed_tokens.lora_embedding_A", same), "no module"),
    "magnitude vector": (set_tensor(f"{QUERY}.lora_magnitude_vector.weight", same), "no module"),
    "integers": (set_tensor(f"{QUERY}.lora_A.weight", lambda t: t.to(torch.int32)), "finite"),
    "DoRA": (set_config(use_dora=True), "use_dora"),
    "modules_to_save": (set_config(modules_to_save=["lm_head"]), "modules_to_save"),
    "bias": (set_config(bias="all"), "bias"),
    "rank_pattern": (set_config(rank_pattern={"q_proj": 64}), "rank_pattern"),
    "alpha_pattern": (set_config(alpha_pattern={"q_proj": 64}), "alpha_pattern"),
    "PiSSA": (set_config(init_lora_weights="pissa_niter_4"), "pissa"),
    "feature of the future": (set_config(use_quantum=True), "use_quantum"),
    "not LoRA": (set_config(peft_type="IA3"), "peft_type"),
    "huge rank": (set_config(r=100_000), "rank"),
    "zero rank": (set_config(r=0), "rank"),
    "alpha not finite": (set_config(lora_alpha=float("inf")), "lora_alpha"),
    "settings without rank": (lambda f: (f / CONFIG).write_text('{"peft_type": "LORA"}'), "r, lora_alpha"),
    "settings not JSON": (lambda f: (f / CONFIG).write_text("{"), "not JSON"),
    "settings a list": (lambda f: (f / CONFIG).write_text("[]"), "top level"),
    "truncated weights": (lambda f: os.truncate(f / WEIGHTS, 100), "not a safetensors"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "cannot be read"),
    "no tensors": (lambda f: save_file({}, f / WEIGHTS), "no LoRA tensors"),
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def shelf(model: Model, root: Path) -> Adapters:
    return Adapters(root, "base", model.targets, model.device, model.dtype)


@pytest.mark.parametrize("fault", REFUSED)
def test_refused_with_the_reason(shelf: Adapters, root: Path, model_folder: Path, fault: str) -> None:
    spoil, reason = REFUSED[fault]
    spoil(build_tiny_adapter(root, model_folder, "x@v1"))
    with pytest.raises(AdapterRefused, match=reason):
        shelf.load("x@v1", "x@v1")
    assert shelf.get("x@v1") is None
    build_tiny_adapter(root, model_folder, "sound")
    assert shelf.load("x@v1", "sound").name == "x@v1"


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", ".a", "-a", "é", "a" * 129, "a b", "base"])
def test_names_are_held_to_a_pattern(shelf: Adapters, root: Path, model_folder: Path, name: str) -> None:
    build_tiny_adapter(root, model_folder, "x")
    with pytest.raises(AdapterRefused):
        shelf.load(name, "x")


@pytest.mark.parametrize("path", ["../outside", "{outside}", "link", ".", "", "sub/../../outside", "a\0b"])
def test_only_folders_below_the_root(shelf: Adapters, root: Path, model_folder: Path, path: str) -> None:
    outside = build_tiny_adapter(root.parent, model_folder, "outside")
    (root / "link").symlink_to(outside)
    with pytest.raises(AdapterRefused) as refusal:
        shelf.load("x", path.format(outside=outside))
    # What lies outside is not told: the same words for a folder that is not there.
    with pytest.raises(AdapterRefused) as other:
        shelf.load("x", "../nothing-here")
    assert path == "" or refusal.value.message == other.value.message


def test_a_file_that_links_out_of_the_root_is_refused(
    shelf: Adapters, root: Path, model_folder: Path
) -> None:
    outside = build_tiny_adapter(root.parent, model_folder, "outside")
    folder = build_tiny_adapter(root, model_folder, "x")
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(outside / WEIGHTS)
    with pytest.raises(AdapterRefused):
        shelf.load("x", "x")


@pytest.mark.parametrize("path", ["org/repo", "http://169.254.169.254/latest", "x"])
def test_what_is_not_there_is_not_found(shelf: Adapters, path: str) -> None:
    with pytest.raises(NotFound, match="No adapter found"):
        shelf.load("x", path)


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


def test_pickles_are_never_opened(shelf: Adapters, root: Path, model_folder: Path, tmp_path: Path) -> None:
    folder = build_tiny_adapter(root, model_folder, "x")
    (folder / WEIGHTS).unlink()
    payload = pickle.dumps(Canary(tmp_path / "canary"))
    (folder / "adapter_model.bin").write_bytes(payload)
    with pytest.raises(AdapterRefused):
        shelf.load("x", "x")
    (folder / WEIGHTS).write_bytes(payload)
    with pytest.raises(AdapterRefused):
        shelf.load("x", "x")
    assert not (tmp_path / "canary").exists()


def test_a_name_is_loaded_once_and_reads_each_file_once(
    shelf: Adapters, root: Path, model_folder: Path
) -> None:
    folder = build_tiny_adapter(root, model_folder, "x@v1")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    first = shelf.load("x@v1", "x@v1")
    with pytest.raises(AdapterRefused, match="already been loaded"):
        shelf.load("x@v1", "x@v1")
    assert sorted(path for path in opened if str(folder) in path) == [
        str(folder / CONFIG),
        str(folder / WEIGHTS),
    ]
    assert shelf.unload("x@v1") is first
    assert shelf.load("x@v1", "x@v1").serial != first.serial
    with pytest.raises(NotFound):
        shelf.unload("y@v1")
