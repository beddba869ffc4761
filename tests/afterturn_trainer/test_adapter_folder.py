"""Adapters on disk: whole or absent, checked, and never with a NaN."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.afterturn_trainer.tiny import SETTINGS, tiny_model, tiny_policy, tiny_sample

from afterturn_core.adapter_files import MANIFEST, WEIGHTS
from afterturn_core.errors import AdapterError
from afterturn_trainer.adapter_folder import (
    MOMENTS,
    REJECTED,
    REJECTED_KEPT,
    clear_drafts,
    folder_of,
    forget_moments,
    moments_in,
    put_aside,
    verify,
    write_adapter,
)
from afterturn_trainer.faults import NonFinite
from afterturn_trainer.lora import Policy, attach
from afterturn_trainer.update import UpdateReport, run_update


def trained() -> tuple[Policy, UpdateReport]:
    policy = tiny_policy()
    return policy, run_update(policy, [tiny_sample(policy, "t", 1, ((40, 41),))], SETTINGS)


def write(root: Path, version: int = 1) -> Path:
    policy, report = trained()
    folder = folder_of(root, "agent", version)
    write_adapter(
        folder, policy, report.moments, name=f"agent@v{version}", parent=None, model_hash="h", round_id="r"
    )
    return folder


def test_what_is_written_is_what_was_trained(tmp_path: Path) -> None:
    policy, report = trained()
    folder = tmp_path / "agent" / "v1"
    manifest = write_adapter(
        folder, policy, report.moments, name="agent@v1", parent=None, model_hash="h", round_id="r"
    )
    assert verify(folder) == manifest
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json", "adapter_model.safetensors", "manifest.json", "optimizer.safetensors",
    }  # fmt: skip
    again = attach(tiny_model(), SETTINGS, folder)
    for name, weight in policy.trainable().items():
        assert torch.equal(weight, again.trainable()[name])
    moments = moments_in(folder)
    assert moments is not None
    assert moments.step == report.moments.step


def test_a_nan_never_becomes_a_folder(tmp_path: Path) -> None:
    """B33: the check comes before the first byte, and no draft is left."""
    policy, report = trained()
    with torch.no_grad():
        next(iter(policy.trainable().values()))[0, 0] = float("nan")
    with pytest.raises(NonFinite):
        write_adapter(
            tmp_path / "agent" / "v1",
            policy,
            report.moments,
            name="agent@v1",
            parent=None,
            model_hash="h",
            round_id="r",
        )
    assert list((tmp_path / "agent").iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_file_with_a_nan_or_an_infinity_is_refused(tmp_path: Path, value: float) -> None:
    """B33: even with a manifest that vouches for it."""
    folder = write(tmp_path)
    tensors = load_file(folder / WEIGHTS)
    next(iter(tensors.values()))[0, 0] = value
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(AdapterError, match="checksum"):
        verify(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][WEIGHTS] = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(AdapterError, match="not finite"):
        verify(folder)


@pytest.mark.parametrize("missing", ["adapter_config.json", WEIGHTS, MANIFEST])
def test_half_a_folder_is_refused(tmp_path: Path, missing: str) -> None:
    folder = write(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(AdapterError):
        verify(folder)


def test_a_number_is_written_once(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(AdapterError):
        write(tmp_path)


def test_only_the_live_adapter_keeps_its_moments(tmp_path: Path) -> None:
    folder = write(tmp_path)
    forget_moments(folder)
    verify(folder)
    assert moments_in(folder) is None


def test_damaged_moments_are_not_continued(tmp_path: Path) -> None:
    folder = write(tmp_path)
    tensors = load_file(folder / MOMENTS)
    save_file({**tensors, "step": torch.tensor([99])}, folder / MOMENTS)
    with pytest.raises(AdapterError):
        moments_in(folder)


def test_candidates_that_failed_lie_out_of_the_way(tmp_path: Path) -> None:
    for version in range(1, REJECTED_KEPT + 3):
        put_aside(write(tmp_path, version))
    agent = tmp_path / "agent"
    assert [path.name for path in agent.iterdir()] == [REJECTED]
    assert sorted(path.name for path in (agent / REJECTED).iterdir()) == ["v3", "v4", "v5"]


def test_what_a_killed_attempt_left_is_cleared(tmp_path: Path) -> None:
    folder = write(tmp_path)
    draft = folder.parent / ".v2.abcd.tmp"
    draft.mkdir()
    (draft / WEIGHTS).write_bytes(b"half")
    clear_drafts(tmp_path, "agent")
    assert [path.name for path in folder.parent.iterdir()] == ["v1"]
