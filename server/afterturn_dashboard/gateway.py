"""The gateway as the dashboard sees it: the admin API through the SDK, and `/readyz`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from afterturn import (
    JSON,
    Adapter,
    AfterturnError,
    Agent,
    AsyncAfterturn,
    AsyncListing,
    ConnectionFailed,
    Forbidden,
    Round,
    ServerError,
    Stats,
    StatusError,
    TooManyRequests,
    Unauthorized,
)

T = TypeVar("T")

TIMEOUT_S = 10.0  # a page that waits longer is better told that the gateway is away
MOST_ROWS = 500
PAGE_ROWS = 100


class GatewayAway(Exception):
    """The gateway does not answer, or not sensibly; it may later."""


class KeyRefused(Exception):
    """The gateway does not take this key for an admin key."""


class Refused(Exception):
    """The gateway will not do this; the message says why and is fit to be shown."""


@dataclass(frozen=True)
class Dependency:
    """Something the gateway needs, as `/readyz` tells."""

    name: str
    ready: bool
    detail: str


class Gateway:
    """The verbs the pages use. Each raises `GatewayAway`, `KeyRefused` or `Refused`.

    Building one raises `KeyRefused` for a key that cannot be a header.
    """

    def __init__(self, url: str, admin_key: str) -> None:
        self.url = url
        if not (admin_key.isascii() and admin_key.isprintable() and " " not in admin_key):
            raise KeyRefused("no key looks like that")
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)
        self._client = AsyncAfterturn(
            url,
            api_key=admin_key,
            admin_key=admin_key,
            timeout=TIMEOUT_S,
            max_retries=0,
            keep_events=False,
            http_client=self._http,
        )

    async def one_agent(self) -> None:
        """The least that needs an admin key."""
        await _asked(self._first(self._client.agents.list(limit=1), 1))

    async def agents(self) -> tuple[Agent, ...]:
        """All agents."""
        return await _asked(self._first(self._client.agents.list(limit=PAGE_ROWS)))

    async def rounds(self) -> tuple[Round, ...]:
        """The newest rounds, at most `MOST_ROWS`."""
        return await _asked(self._first(self._client.rounds.list(limit=PAGE_ROWS)))

    async def round(self, round_id: str) -> Round:
        """One round."""
        return await _asked(self._client.rounds.get(round_id))

    async def adapters(self) -> tuple[Adapter, ...]:
        """The adapters, at most `MOST_ROWS`."""
        return await _asked(self._first(self._client.adapters.list(limit=PAGE_ROWS)))

    async def stats(self) -> Stats:
        """The install's figures."""
        return await _asked(self._client.stats())

    async def dependencies(self) -> tuple[Dependency, ...]:
        """What the gateway needs and how it is."""
        try:
            reply = await self._http.get(f"{self.url}/readyz")
            body: JSON = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            raise GatewayAway(str(error)) from error
        return dependencies_in(body)

    async def train(self, agent: str) -> Round:
        """Start a round now."""
        return await _asked(self._client.rounds.start(agent))

    async def cancel(self, round_id: str) -> None:
        """Stop a round."""
        await _asked(self._client.rounds.cancel(round_id))

    async def promote(self, adapter: str) -> None:
        """Make an adapter live."""
        await _asked(self._client.adapters.promote(adapter))

    async def rollback(self, agent: str, to: int) -> None:
        """Make an earlier version live; 0 is the base model."""
        await _asked(self._client.adapters.rollback(agent, to=to))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.close()
        await self._http.aclose()

    async def _first(self, listing: AsyncListing[T], most: int = MOST_ROWS) -> tuple[T, ...]:
        found: list[T] = []
        async for page in listing.pages():
            found += page.data
            if len(found) >= most:
                break
        return tuple(found[:most])


async def check_key(url: str, admin_key: str) -> None:
    """Read one agent with a key. Raises `KeyRefused` if that is no admin key, `GatewayAway`."""
    gateway = Gateway(url, admin_key)
    try:
        await gateway.one_agent()
    finally:
        await gateway.close()


def dependencies_in(body: JSON) -> tuple[Dependency, ...]:
    """Each part of a `/readyz` body: every member that is an object with `ok`."""
    if not isinstance(body, dict):
        return ()
    return tuple(
        Dependency(name, part["ok"] is True, str(part.get("detail") or ""))
        for name, part in body.items()
        if isinstance(part, dict) and "ok" in part
    )


async def _asked(question: Awaitable[T]) -> T:
    try:
        return await question
    except (Unauthorized, Forbidden) as error:
        raise KeyRefused(str(error)) from error
    except (ConnectionFailed, ServerError, TooManyRequests) as error:
        raise GatewayAway(str(error)) from error
    except StatusError as error:
        raise Refused(str(error.args[0])) from error
    except AfterturnError as error:
        raise GatewayAway(f"its answer could not be read: {error}") from error


Fetch = Callable[[Gateway], Awaitable[T]]
