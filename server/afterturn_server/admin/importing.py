"""Importing: weights that come from elsewhere become a new version, checked and not live."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from fastapi import APIRouter, Request
from sqlmodel import Session

from afterturn_core.adapter_archive import unpack
from afterturn_core.adapter_files import CONFIG, MANIFEST, WEIGHTS, CheckedAdapter, check_files
from afterturn_core.columns import utc_now
from afterturn_core.disk import sync
from afterturn_core.errors import AdapterError, Conflict, EngineError
from afterturn_core.ids import new_id
from afterturn_core.lifecycle import import_adapter, publish_import, reject_import, reject_left_imports
from afterturn_core.models import Adapter

from ..body import save_bytes
from ..gateway import Gateway
from ..listing import find_agent
from ..upstream import AdapterUnavailable
from ..views import AdapterView, adapter_view
from .access import ZIP, Admitted, UnsupportedMediaType, media_type

router = APIRouter(tags=["adapters"])

INTAKE = ".imports"  # under the adapter root: moving a folder into place must stay on one disk
LEFT_AFTER = timedelta(hours=1)  # an import that is still a candidate then was killed


@dataclass(frozen=True)
class Begun:
    """An import with its number: the row, and where its folder will lie."""

    adapter_id: str
    name: str
    folder: Path


@router.post(
    "/adapters",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def take_adapter(gateway: Admitted, request: Request, agent: str) -> AdapterView:
    """Take a zip of `adapter_config.json`, `adapter_model.safetensors` and `manifest.json` as a new version
    of an agent: published, not live. 400 with the reason for what cannot be served, 409 for another base
    model's."""
    if media_type(request) != ZIP:
        raise UnsupportedMediaType(f"Send the adapter's folder with 'Content-Type: {ZIP}'.")
    owner = await gateway.read(lambda session: find_agent(session, agent))
    await _clear_left(gateway)
    async with _intake(gateway) as place:
        limit = gateway.settings.max_adapter_bytes
        await save_bytes(request, place / "body", limit)
        draft = place / "adapter"
        checked = await asyncio.to_thread(_unpacked, place / "body", draft, limit)
        await _check_base(gateway, checked)
        begun = await gateway.write(lambda session: _begin(session, gateway, owner.id, checked))
        placed = False
        try:
            await asyncio.to_thread(_put_in_place, draft, begun, checked)
            placed = True
            await _try_engine(gateway, begun)
            return await gateway.write(lambda session: _publish(session, begun, checked))
        except BaseException:  # also when the client leaves: no candidate stays behind
            await asyncio.shield(_give_up(gateway, begun, placed))
            raise


@asynccontextmanager
async def _intake(gateway: Gateway) -> AsyncIterator[Path]:
    place = gateway.settings.adapter_root / INTAKE / new_id("import")
    await asyncio.to_thread(place.mkdir, 0o700, True)
    try:
        yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, True)


def _unpacked(body: Path, draft: Path, limit: int) -> CheckedAdapter:
    draft.mkdir()
    unpack(body, draft, limit)
    return check_files(draft)


async def _check_base(gateway: Gateway, checked: CheckedAdapter) -> None:
    served = (await gateway.weights()).model_hash
    if checked.manifest.model_hash != served:
        raise Conflict(
            f"The adapter was made for another base model than the one that serves now "
            f"({checked.manifest.model_hash}, not {served}).",
            code="other_base_model",
        )


def _begin(session: Session, gateway: Gateway, agent_id: str, checked: CheckedAdapter) -> Begun:
    given = checked.manifest
    row = import_adapter(session, agent_id, model_hash=given.model_hash, imported_as=given.name)
    agent = row.name.rpartition("@v")[0]
    return Begun(row.id, row.name, gateway.settings.adapter_root / agent / f"v{row.version}")


def _put_in_place(draft: Path, begun: Begun, checked: CheckedAdapter) -> None:
    """The folder under its own name, as whole as the trainer's are: synced, then renamed."""
    manifest = {
        "name": begun.name,
        "parent": None,
        "model_hash": checked.manifest.model_hash,
        "round_id": "",
        "created_at": utc_now().isoformat(),
        "files": checked.manifest.files,
        "moments": {},
    }
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    for path in (draft / CONFIG, draft / WEIGHTS, draft / MANIFEST, draft):
        sync(path)
    begun.folder.parent.mkdir(parents=True, exist_ok=True)
    if begun.folder.exists():
        raise AdapterError(f"{begun.name} is on disk already, and not in the database: move it away")
    draft.rename(begun.folder)
    sync(begun.folder.parent)


async def _try_engine(gateway: Gateway, begun: Begun) -> None:
    """An engine that is away is no obstacle: it is asked again before the adapter goes live."""
    try:
        await gateway.upstream.load_everywhere(begun.name, str(begun.folder))
    except AdapterUnavailable as error:
        raise AdapterError(f"The engine refuses the adapter: {error.reason}") from None
    except EngineError:
        return


def _publish(session: Session, begun: Begun, checked: CheckedAdapter) -> AdapterView:
    row = publish_import(session, begun.adapter_id, path=str(begun.folder), sha256=checked.sha256)
    return adapter_view(session, row, find_agent(session, row.name.rpartition("@v")[0]))


async def _give_up(gateway: Gateway, begun: Begun, placed: bool) -> None:
    await gateway.write(lambda session: reject_import(session, begun.adapter_id))
    if placed and not await gateway.read(lambda session: _is_published(session, begun.adapter_id)):
        await asyncio.to_thread(shutil.rmtree, begun.folder, True)


def _is_published(session: Session, adapter_id: str) -> bool:
    # The commit may have happened and only its answer got lost: never remove what may be live.
    return session.get_one(Adapter, adapter_id).state == "published"


async def _clear_left(gateway: Gateway) -> None:
    """What imports left behind that were killed half-way."""
    before = utc_now() - LEFT_AFTER
    left = await gateway.write(lambda session: [row.name for row in reject_left_imports(session, before)])
    root = gateway.settings.adapter_root
    await asyncio.to_thread(_remove_left, root, left, before.timestamp())


def _remove_left(root: Path, names: list[str], before: float) -> None:
    for name in names:
        agent, _, version = name.rpartition("@")
        shutil.rmtree(root / agent / version, ignore_errors=True)
    for place in (root / INTAKE).glob("import_*"):
        if place.stat().st_mtime < before:
            shutil.rmtree(place, ignore_errors=True)
