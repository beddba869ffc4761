"""Events kept on disk while the server is away: one file each, oldest first, bounded."""

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from afterturn.context import state_dir
from afterturn.errors import OutboxFull
from afterturn.wire import JSON, JSONObject

MAX_EVENTS = 1000
MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class KeptEvent:
    """An event that waits for the server; `body` is what will be posted."""

    idempotency_key: str
    body: JSONObject


@dataclass(frozen=True)
class Outbox:
    """A folder of events.

    A file appears whole or not at all (written aside, synced, renamed), its name sorts by time, and only its
    owner can read it. Several processes may share the folder: an event that two of them deliver counts once,
    by its idempotency key. What the server refuses for good moves to `rejected/`, where nothing is sent from.
    """

    folder: Path
    max_events: int = MAX_EVENTS
    max_bytes: int = MAX_BYTES

    def keep(self, key: str, body: JSONObject) -> None:
        """Add an event behind those already waiting.

        Raises `OutboxFull`; `OSError` if the disk does not take it.
        """
        text = json.dumps(body, ensure_ascii=False).encode()
        waiting = self._files()
        size = sum(_size(path) for path in waiting)
        if len(waiting) >= self.max_events or size + len(text) > self.max_bytes:
            raise OutboxFull(
                f"{len(waiting)} events wait in {self.folder}; the server is away and no more fit"
            )
        self._make(self.folder)
        _write_atomically(self.folder / f"{time.time_ns():020d}-{_file_key(key)}.json", text)

    def pending(self) -> tuple[KeptEvent, ...]:
        """The events that wait, oldest first."""
        return tuple(event for _, event in self.waiting())

    def waiting(self) -> list[tuple[Path, KeptEvent]]:
        """The same with their files. A file that holds no event is moved to `rejected/`."""
        found: list[tuple[Path, KeptEvent]] = []
        for path in self._files():
            try:
                event = _read(path)
            except FileNotFoundError:  # another process delivered it
                continue
            if event is None:
                self.reject(path)
            else:
                found.append((path, event))
        return found

    def remove(self, path: Path) -> None:
        """Forget an event that was delivered."""
        path.unlink(missing_ok=True)

    def reject(self, path: Path) -> None:
        """Put an event aside that the server will never take; the oldest of these make room."""
        rejected = self.folder / "rejected"
        self._make(rejected)
        with contextlib.suppress(FileNotFoundError):
            path.replace(rejected / path.name)
        for old in sorted(rejected.glob("*.json"))[: -self.max_events]:
            old.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"))

    def _make(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def default_outbox_folder(base_url: str, key: str) -> Path:
    """A folder of this user's for one server and key, so that no event goes out under another agent's key."""
    mark = hashlib.sha256(f"{base_url}\n{key}".encode()).hexdigest()[:16]
    return state_dir() / "afterturn" / "outbox" / mark


def _file_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read(path: Path) -> KeptEvent | None:
    try:
        body: JSON = json.loads(path.read_bytes())
    except ValueError:
        return None
    key = body.get("idempotency_key") if isinstance(body, dict) else None
    return KeptEvent(key, body) if isinstance(body, dict) and isinstance(key, str) else None


def _write_atomically(path: Path, content: bytes) -> None:
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:  # Ctrl-C too: no half-written file stays
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
