"""An adapter on disk: a PEFT folder with a manifest, there as a whole or not at all, never changed after."""

import json
import secrets
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from afterturn_core.adapter_files import CONFIG, MANIFEST, WEIGHTS, sha256
from afterturn_core.disk import sync
from afterturn_core.errors import AdapterError
from afterturn_trainer.lora import Policy
from afterturn_trainer.moments import Moments, load_moments, save_moments

MOMENTS = "optimizer.safetensors"
REJECTED = ".rejected"
REJECTED_KEPT = 3  # enough to look into, no more: nobody serves them


@dataclass(frozen=True)
class Manifest:
    """What a folder says of itself; `files` maps names to SHA-256 in hex.

    The optimiser's moments are listed apart, since they are only kept for the live adapter.
    """

    name: str
    parent: str | None
    model_hash: str
    round_id: str
    created_at: str
    files: dict[str, str]
    moments: dict[str, str]

    @property
    def sha256(self) -> str:
        """The checksum that stands for the adapter: its weights'."""
        return self.files[WEIGHTS]


def folder_of(root: Path, agent: str, version: int) -> Path:
    """Where version N of an agent lies."""
    return root / agent / f"v{version}"


def write_adapter(
    folder: Path,
    policy: Policy,
    moments: Moments,
    *,
    name: str,
    parent: str | None,
    model_hash: str,
    round_id: str,
) -> Manifest:
    """Write beside, sync, rename: whoever sees the folder sees all of it.

    Raises NonFinite for a weight that is not finite, AdapterError if the folder is already there or the disk
    takes no more.
    """
    if folder.exists():
        raise AdapterError(f"{folder.name} of this agent is already on disk; its number was not burned")
    draft = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.tmp"
    try:
        draft.mkdir(parents=True)
        policy.save(draft)
        save_moments(moments, draft / MOMENTS)
        manifest = Manifest(
            name=name,
            parent=parent,
            model_hash=model_hash,
            round_id=round_id,
            created_at=datetime.now(UTC).isoformat(),
            files={file: sha256(draft / file) for file in (CONFIG, WEIGHTS)},
            moments={MOMENTS: sha256(draft / MOMENTS)},
        )
        (draft / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", "utf-8")
        for file in draft.iterdir():
            sync(file)
        sync(draft)
        draft.rename(folder)
        sync(folder.parent)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AdapterError(f"{folder.name} cannot be written to the disk: {reason}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # of a whole adapter it is gone: renamed
    return manifest


def verify(folder: Path) -> Manifest:
    """Check a folder against its manifest and its weights for NaN and infinity.

    Raises AdapterError with the first thing that is wrong.
    """
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise AdapterError(f"{folder.name} has no readable manifest: {error}") from None
    if set(manifest.files) != {CONFIG, WEIGHTS}:
        raise AdapterError(f"the manifest of {folder.name} does not list {CONFIG} and {WEIGHTS}")
    for file, expected in manifest.files.items():
        if not (folder / file).is_file():
            raise AdapterError(f"{folder.name} lacks {file}")
        if sha256(folder / file) != expected:
            raise AdapterError(f"{file} of {folder.name} is not what was written: its checksum differs")
    _check_finite(folder / WEIGHTS)
    return manifest


def moments_in(folder: Path) -> Moments | None:
    """The optimiser's moments kept beside an adapter, None when there are none to continue from.

    Raises AdapterError when they are there and damaged.
    """
    path = folder / MOMENTS
    if not path.is_file():
        return None
    expected = json.loads((folder / MANIFEST).read_text("utf-8"))["moments"].get(MOMENTS)
    if sha256(path) != expected:
        raise AdapterError(f"{MOMENTS} of {folder.name} is not what was written: its checksum differs")
    return load_moments(path)


def forget_moments(folder: Path) -> None:
    """Moments are large and only the live adapter's are continued."""
    (folder / MOMENTS).unlink(missing_ok=True)


def put_aside(folder: Path) -> None:
    """Move a candidate that will never be live out of the way; the last few stay to be looked at."""
    if not folder.is_dir():
        return
    aside = folder.parent / REJECTED
    aside.mkdir(exist_ok=True)
    forget_moments(folder)
    folder.rename(aside / folder.name)
    kept = sorted(aside.iterdir(), key=lambda path: int(path.name.removeprefix("v")))
    for old in kept[:-REJECTED_KEPT]:
        shutil.rmtree(old)


def clear_drafts(root: Path, agent: str) -> None:
    """Remove what killed attempts left half written; only the holder of the agent's round may."""
    for draft in (root / agent).glob(".v*.tmp"):
        shutil.rmtree(draft, ignore_errors=True)


def _check_finite(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is no mapping
                if not torch.isfinite(tensors.get_tensor(name)).all():
                    raise AdapterError(f"weight {name} is not finite")
    except SafetensorError as error:
        raise AdapterError(f"{path.name} is damaged: {error}") from None
