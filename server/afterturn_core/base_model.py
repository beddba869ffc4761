"""The base model's identity: what was sampled under one base is not trained under another."""

import hashlib
import json
from pathlib import Path

from .settings import Settings

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_SAMPLED_TENSORS = 2048  # of one file: a model with more experts than that is read in part
_SAMPLED_BYTES = 256
_TEXT_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def model_location(settings: Settings) -> str:
    """The folder or hub id that the engine and the trainer load; `default` is the converted model."""
    if settings.model == "default":
        return str(settings.data_dir.resolve() / "models" / DEFAULT_MODEL)
    return settings.model


def model_hash(location: str) -> str:
    """Sixteen hex digits over model, tokenizer and chat template.

    Weights enter by the name, shape and type of every tensor and some bytes from the middle of it: enough
    to tell a fine-tune from what it was made of, without the minutes that reading all of a large model at
    each start would take. A hub id that is not a local folder is hashed by its name.
    """
    digest = hashlib.sha256()
    folder = Path(location)
    if not folder.is_dir():
        digest.update(location.encode())
        return digest.hexdigest()[:16]
    for name in _TEXT_FILES:
        file = folder / name
        if file.is_file():
            digest.update(name.encode() + b"\0" + file.read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        _add_weights(digest, file)
    return digest.hexdigest()[:16]


def _add_weights(digest: "hashlib._Hash", file: Path) -> None:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(min(length, _MAX_HEADER_BYTES))
        digest.update(header)
        places = _places(header)
        for begin, end in places[:: max(1, len(places) // _SAMPLED_TENSORS)]:
            middle = (begin + end) // 2
            stream.seek(8 + length + middle)
            digest.update(stream.read(min(_SAMPLED_BYTES, end - middle)))


def _places(header: bytes) -> list[tuple[int, int]]:
    """First byte and end of every tensor; none of a damaged file, which the loader will refuse by itself."""
    try:
        entries = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        found = [(int(entry["data_offsets"][0]), int(entry["data_offsets"][1])) for entry in entries]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []
    return found if all(0 <= begin <= end for begin, end in found) else []
