"""Adapters: immutable, numbered LoRAs. All verbs need the admin key."""

import io
import os
import zipfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from afterturn.decoding import decoder, nothing
from afterturn.listing import Page, async_listing, listing, page_of
from afterturn.verb import AsyncNamespace, Call, Namespace, awaited, blocking
from afterturn.wire import JSON, JSONObject, query, segment

FILES = ("adapter_config.json", "adapter_model.safetensors", "manifest.json")


@dataclass(frozen=True)
class Adapter:
    """One version of what an agent has learned, e.g. `default@v7`."""

    name: str
    version: int
    agent: str | None = None
    parent: int | None = None
    state: str | None = None
    live: bool = False
    marks: tuple[str, ...] = ()
    round_id: str | None = None
    origin: str | None = None
    imported_as: str | None = None
    sha256: str | None = None
    model_hash: str | None = None
    created_at: datetime | None = None
    gate: JSON = None


def list_adapters(*, agent: str | None = None, limit: int | None = None) -> Call[Page[Adapter]]:
    """Adapters, newest first; `limit` is the size of a page."""
    params = query(agent=agent, limit=limit)
    return Call("GET", "/admin/api/adapters", page_of(Adapter), params, admin=True)


def promote(name: str) -> Call[None]:
    """Make `agent@vN` the live one. Raises `Conflict` if it is not complete, or tainted."""
    return Call("POST", f"/admin/api/adapters/{segment(name)}/promote", nothing, admin=True)


def rollback(agent: str, *, to: int | None = None) -> Call[None]:
    """Go back to version `to` (0: the base model), or to the parent of the live one.

    Raises `Conflict` as `promote` does.
    """
    body: JSONObject = {} if to is None else {"to": to}
    return Call("POST", f"/admin/api/agents/{segment(agent)}/rollback", nothing, body=body, admin=True)


def upload(folder: str | os.PathLike[str], *, agent: str) -> Call[Adapter]:
    """Make a folder with an exported adapter a new version of `agent`: published, not live (see `promote`).

    Raises `FileNotFoundError` for a folder without one of the three files, `BadRequest` with the reason for
    weights that cannot be served, and `Conflict` for those of another base model.
    """
    path = "/admin/api/adapters"
    return Call("POST", path, decoder(Adapter), query(agent=agent), admin=True, archive=_packed(Path(folder)))


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    # Weights hardly get smaller, and packing them takes long.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in FILES:
            archive.write(folder / name, name)
    return packed.getvalue()


class Adapters(Namespace):
    """Verbs about adapters."""

    list = listing(list_adapters)
    promote = blocking(promote)
    rollback = blocking(rollback)
    upload = blocking(upload)


class AsyncAdapters(AsyncNamespace):
    """Verbs about adapters."""

    list = async_listing(list_adapters)
    promote = awaited(promote)
    rollback = awaited(rollback)
    upload = awaited(upload)
