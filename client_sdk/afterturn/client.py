"""The two clients: the same verbs, blocking and awaited."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from afterturn import install
from afterturn.adapters import Adapters, AsyncAdapters
from afterturn.agents import Agents, AsyncAgents
from afterturn.context import Context, base_url_from, key_from
from afterturn.errors import ConfigurationError
from afterturn.feedback import AsyncFeedback, Feedback
from afterturn.keys import AsyncKeys, Keys
from afterturn.outbox import Outbox, default_outbox_folder
from afterturn.rounds import AsyncRounds, Rounds
from afterturn.session import AsyncSession, Session
from afterturn.sessions import AsyncSessions, Sessions
from afterturn.transport import AwaitingTransport, BlockingTransport
from afterturn.turns import AsyncTurns, Turns
from afterturn.wire import JSONObject


class Afterturn:
    """A blocking client of one server.

    Args:
        base_url: the server's root; else AFTERTURN_BASE_URL, else http://127.0.0.1:30000.
        api_key: an agent's key; else AFTERTURN_API_KEY. Needed for feedback, turns and sessions.
        admin_key: else AFTERTURN_ADMIN_KEY. Needed for rounds, adapters, agents, keys, stats and erasure.
        timeout: seconds without a byte from the server.
        max_retries: how often a request that is safe to repeat is tried again.
        outbox_dir: where events wait while the server is away; by default a folder of this user's for this
            server and key, under XDG_STATE_HOME.
        keep_events: False raises instead of keeping events.
        http_client: an `httpx.Client` of your own (proxies, certificates); it stays yours to close.

    Raises `ConfigurationError`. Close it, or use it in a `with` block.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        admin_key: str | None = None,
        *,
        timeout: float = 30.0,
        max_retries: int = 2,
        outbox_dir: str | os.PathLike[str] | None = None,
        keep_events: bool = True,
        http_client: httpx.Client | None = None,
    ) -> None:
        self._context = _context(base_url, api_key, admin_key, timeout, max_retries, outbox_dir, keep_events)
        self._transport = BlockingTransport(self._context, http_client)
        self.feedback = Feedback(self._transport)
        self.turns = Turns(self._transport)
        self.sessions = Sessions(self._transport)
        self.rounds = Rounds(self._transport)
        self.adapters = Adapters(self._transport)
        self.agents = Agents(self._transport)
        self.keys = Keys(self._transport)

    @property
    def base_url(self) -> str:
        """The server's root, without `/v1`."""
        return self._context.base_url

    def session(self, name: str, *, end_on_exit: bool = True) -> Session:
        """A conversation: `with client.session("trip") as s: s.openai.chat.completions.create(…)`."""
        return Session(self._transport, name, end_on_exit=end_on_exit)

    def stats(self) -> install.Stats:
        """The install's figures."""
        return self._transport.run(install.stats().flow(self._context))

    def export(self, agent: str) -> Iterator[JSONObject]:
        """Everything stored of an agent, a JSON object at a time, as it arrives."""
        return self._transport.lines(install.export(agent).exchange(self._context))

    def erase(
        self,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        client_user: str | None = None,
    ) -> JSONObject:
        """Erase one agent's, session's, turn's or client user's data; returns the server's receipt."""
        call = install.erase(agent=agent, session_id=session_id, turn_id=turn_id, client_user=client_user)
        return self._transport.run(call.flow(self._context))

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Afterturn({self.base_url!r})"


class AsyncAfterturn:
    """An awaited client of one server, for asyncio. The same arguments and verbs as `Afterturn`."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        admin_key: str | None = None,
        *,
        timeout: float = 30.0,
        max_retries: int = 2,
        outbox_dir: str | os.PathLike[str] | None = None,
        keep_events: bool = True,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._context = _context(base_url, api_key, admin_key, timeout, max_retries, outbox_dir, keep_events)
        self._transport = AwaitingTransport(self._context, http_client)
        self.feedback = AsyncFeedback(self._transport)
        self.turns = AsyncTurns(self._transport)
        self.sessions = AsyncSessions(self._transport)
        self.rounds = AsyncRounds(self._transport)
        self.adapters = AsyncAdapters(self._transport)
        self.agents = AsyncAgents(self._transport)
        self.keys = AsyncKeys(self._transport)

    @property
    def base_url(self) -> str:
        """The server's root, without `/v1`."""
        return self._context.base_url

    def session(self, name: str, *, end_on_exit: bool = True) -> AsyncSession:
        """A conversation: `async with client.session("trip") as s: await s.openai.chat…`."""
        return AsyncSession(self._transport, name, end_on_exit=end_on_exit)

    async def stats(self) -> install.Stats:
        """The install's figures."""
        return await self._transport.run(install.stats().flow(self._context))

    def export(self, agent: str) -> AsyncIterator[JSONObject]:
        """Everything stored of an agent, a JSON object at a time, as it arrives."""
        return self._transport.lines(install.export(agent).exchange(self._context))

    async def erase(
        self,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        client_user: str | None = None,
    ) -> JSONObject:
        """Erase one agent's, session's, turn's or client user's data; returns the server's receipt."""
        call = install.erase(agent=agent, session_id=session_id, turn_id=turn_id, client_user=client_user)
        return await self._transport.run(call.flow(self._context))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAfterturn({self.base_url!r})"


def _context(
    base_url: str | None,
    api_key: str | None,
    admin_key: str | None,
    timeout: float,
    max_retries: int,
    outbox_dir: str | os.PathLike[str] | None,
    keep_events: bool,
) -> Context:
    if timeout <= 0 or max_retries < 0:
        raise ConfigurationError("timeout must be positive, max_retries must not be negative")
    root = base_url_from(base_url)
    agent_key = key_from(api_key, "AFTERTURN_API_KEY")
    admin = key_from(admin_key, "AFTERTURN_ADMIN_KEY")
    outbox = None
    if keep_events:
        folder = Path(outbox_dir) if outbox_dir else default_outbox_folder(root, agent_key or admin or "")
        outbox = Outbox(folder)
    return Context(root, agent_key, admin, timeout, max_retries, outbox)
