"""Exported adapters that must be refused, each with what its refusal says or is."""

import io
import json
import os
import pickle
import stat
import struct
import zipfile

import pytest
import torch
from tests.exported import (
    CONFIG,
    FILES,
    QUERY,
    WEIGHTS,
    archive,
    drop_tensor,
    set_config,
    set_tensor,
    with_one,
    zipped,
)


def safetensors(header, size):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def with_header(count, begin, end):
    """Weights whose one tensor of so many values is said to lie between two places."""
    header = {"a": {"dtype": "F32", "shape": [count], "data_offsets": [begin, end]}}
    return lambda folder: (folder / WEIGHTS).write_bytes(safetensors(header, max(end, 0)))


HALF = torch.bfloat16
EMBEDDING = "base_model.model.model.embed_tokens"
OUTSIDE = f"/afterturn-outside-{os.getpid()}"
REFUSED_FILES = {
    "rank too large": (set_config(r=512), "rank"),
    "rank_pattern": (set_config(rank_pattern={"q_proj": 64}), "rank_pattern"),
    "alpha_pattern": (set_config(alpha_pattern={"q_proj": 64}), "alpha_pattern"),
    "modules_to_save": (set_config(modules_to_save=["lm_head"]), "modules_to_save"),
    "DoRA": (set_config(use_dora=True), "use_dora"),
    "rank-stabilised scale": (set_config(use_rslora=True), "use_rslora"),
    "bias": (set_config(bias="all"), "bias"),
    "lora_bias": (set_config(lora_bias=True), "lora_bias"),
    "PiSSA": (set_config(init_lora_weights="pissa"), "pissa"),
    "feature of the future": (set_config(use_quantum=True), "use_quantum"),
    "not LoRA": (set_config(peft_type="IA3"), "peft_type"),
    "alpha not finite": (set_config(lora_alpha=float("inf")), "lora_alpha"),
    "settings of another rank": (set_config(r=8), "rank 8"),
    "settings not JSON": (lambda f: (f / CONFIG).write_text("{"), "not JSON"),
    "settings a list": (lambda f: (f / CONFIG).write_text("[]"), "top level"),
    "settings nested deeply": (lambda f: (f / CONFIG).write_text("[" * 100_000), "not JSON"),
    "no settings": (lambda f: (f / CONFIG).unlink(), "must hold"),
    "settings too long": (lambda f: (f / CONFIG).write_text(" " * (1 << 20) + "{}"), "larger than"),
    "one NaN": (set_tensor(f"{QUERY}.lora_B.weight", with_one(float("nan"))), "finite"),
    "one infinity": (set_tensor(f"{QUERY}.lora_A.weight", with_one(float("-inf"))), "finite"),
    "one NaN in bfloat16": (
        set_tensor(f"{QUERY}.lora_B.weight", lambda t: with_one(float("nan"))(t.to(HALF))), "finite",
    ),
    "half a pair": (drop_tensor(f"{QUERY}.lora_B.weight"), "one of its two"),
    "three axes": (set_tensor(f"{QUERY}.lora_A.weight", lambda t: t[None]), "shape"),
    "integers": (set_tensor(f"{QUERY}.lora_A.weight", lambda t: t.to(torch.int32)), "type"),
    "head": (set_tensor("base_model.model.lm_head.lora_A.weight", lambda t: t), "no module"),
    "embeddings": (set_tensor(f"{EMBEDDING}.lora_embedding_A", lambda t: t), "no module"),
    "embeddings as a layer": (set_tensor(f"{EMBEDDING}.lora_A.weight", lambda t: t), "no module"),
    "magnitudes": (set_tensor(f"{QUERY}.lora_magnitude_vector.weight", lambda t: t), "no module"),
    "truncated weights": (lambda f: os.truncate(f / WEIGHTS, 100), "safetensors"),
    "longer weights": (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes() + b"x"), "damaged"),
    "a header that points elsewhere": (with_header(1, 8, 12), "damaged"),
    "a header of negative sizes": (with_header(-1, 0, -4), "damaged"),
    "a huge header": (lambda f: (f / WEIGHTS).write_bytes(b"\xff" * 8 + b"{}"), "safetensors"),
    "no tensors": (lambda f: (f / WEIGHTS).write_bytes(safetensors({}, 0)), "no LoRA tensors"),
    "pickled weights": (lambda f: (f / WEIGHTS).write_bytes(pickle.dumps({"a": 1}) * 9), "safetensors"),
}  # fmt: skip


def whole(folder, names=FILES):
    return {name: (folder / name).read_bytes() for name in names}


def bombed(folder):
    """A thousandth of its own size: two megabytes of zeros as weights."""
    return archive(whole(folder) | {WEIGHTS: bytes(2 << 20)}, packing=zipfile.ZIP_DEFLATED)


def twice(folder):
    packed = io.BytesIO(zipped(folder))
    with zipfile.ZipFile(packed, "a") as opened, pytest.warns(match="Duplicate"):
        opened.writestr(CONFIG, b"{}")
    return packed.getvalue()


def extra(name):
    return lambda folder: archive({**whole(folder), name: b"x"})


def linked(folder):
    return archive(whole(folder) | {WEIGHTS: b"/etc/passwd"}, stat.S_IFLNK | 0o777)


def flipped(folder):
    """One byte of the weights changed after they were signed."""
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    return zipped(folder)


REFUSED_ARCHIVES = {
    "no archive": (lambda _: b"weights", 400),
    "nothing": (lambda _: b"", 400),
    "truncated": (lambda folder: zipped(folder)[:-100], 400),
    "damaged": (lambda folder: zipped(folder).replace(b"lora_alpha", b"lora_omega"), 400),
    "parent folder": (extra("../x"), 400),
    "absolute": (extra(OUTSIDE), 400),
    "backslashes": (extra("..\\x"), 400),
    "sub-folder": (extra("a/b"), 400),
    "folder": (extra("a/"), 400),
    "pickle": (extra("adapter_model.bin"), 400),
    "links": (linked, 400),
    "devices": (lambda folder: archive(whole(folder), stat.S_IFCHR | 0o600), 400),
    "twice": (twice, 400),
    "no manifest": (lambda folder: archive(whole(folder, (CONFIG, WEIGHTS))), 400),
    "bomb": (bombed, 413),
    "too large": (lambda _: bytes(3 << 20), 413),
    "not what was signed": (flipped, 400),
}  # fmt: skip
