"""The engine replicas a round talks to: an adapter is there on all of them or on none."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import AdapterError, EngineError
from afterturn_core.settings import Settings

log = structlog.get_logger()


class Replicas:
    """Every engine of this install; probes and checks ask the first."""

    def __init__(self, clients: tuple[EngineClient, ...]) -> None:
        self._clients = clients

    @property
    def first(self) -> EngineClient:
        return self._clients[0]

    def load(self, name: str, folder: Path) -> None:
        """Load an adapter everywhere.

        Raises AdapterError when an engine refuses it; it is then on none of them.
        """
        try:
            for client in self._clients:
                client.load_adapter(name, str(folder))
        except (AdapterError, EngineError):
            self.unload(name)
            raise

    def unload(self, name: str) -> None:
        """Forget an adapter everywhere. An engine that is away forgets by itself, so that is only logged."""
        for client in self._clients:
            try:
                client.unload_adapter(name)
            except EngineError as error:
                log.warning("adapter not unloaded", adapter=name, engine=client.base_url, error=error.message)

    def prune(self, agent: str, keep: int, names: frozenset[str]) -> None:
        """Unload an agent's old versions, but the newest `keep` and `names`: requests that began on them
        are still being answered."""
        for client in self._clients:
            try:
                loaded = [card.id for card in client.models() if card.id.startswith(f"{agent}@v")]
                for name in sorted(loaded, key=_version, reverse=True)[keep:]:
                    if name not in names:
                        client.unload_adapter(name)
            except EngineError as error:
                log.warning("old adapters not unloaded", engine=client.base_url, error=error.message)


@contextmanager
def open_replicas(settings: Settings) -> Iterator[Replicas]:
    """Connections to all replicas for the length of a round."""
    key = settings.engine_api_key.get_secret_value()
    with ExitStack() as stack:
        yield Replicas(
            tuple(
                stack.enter_context(EngineClient(url, key, timeout_s=settings.engine_timeout_s))
                for url in settings.engine_urls
            )
        )


def _version(name: str) -> int:
    return int(name.rpartition("@v")[2])
