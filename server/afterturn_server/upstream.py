"""The gateway's side of the engine: replicas, and adapters that must be there."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import orjson
from httpx_aiohttp import AiohttpTransport
from structlog.stdlib import get_logger

from afterturn_core.engine_client import CONNECT_TIMEOUT_S, LOAD_TIMEOUT_S
from afterturn_core.errors import ContextLengthExceeded, EngineError
from afterturn_core.settings import Settings

from .answers import Json
from .engine_errors import refusal, told, transport_failure
from .identity import EngineIdentity, read_identity
from .patience import Heard, patience

MAX_CONNECTIONS = 1024  # more requests than this at once are not a queue but a fault
KEEP_IDLE_S = 4.0  # below the 5 s after which uvicorn, and so vLLM, closes an idle connection
IDENTITY_TIMEOUT_S = 5.0
IDENTITY_AGE_S = 30.0
COMPLETIONS = "/v1/completions"
LIMITS = frozenset({"max_tokens", "max_completion_tokens"})

log = get_logger(__name__)


@dataclass(frozen=True)
class Target:
    """Which weights answer: an adapter's engine name and folder, or the base model."""

    adapter: str | None = None
    path: str | None = None

    @property
    def shown(self) -> str:
        """What `x-adapter` says."""
        return self.adapter or "base"


class AdapterUnavailable(EngineError):
    """The engine refuses an adapter; `reason` are its own words, for administrators alone."""

    code = "adapter_unavailable"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the engine cannot load {name}")
        self.reason = reason


class Upstream:
    """One shared connection pool to every replica of the engine."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = settings.engine_api_key.get_secret_value()
        self._identity: EngineIdentity | None = None
        self._asked_at = 0.0
        self._loading: dict[tuple[str, str], asyncio.Lock] = {}
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        timeout = httpx.Timeout(settings.engine_timeout_s, connect=CONNECT_TIMEOUT_S)
        self._headers = httpx.Headers({**headers, "Content-Type": "application/json"})
        # How long a reply may take is for `patience` to say.
        self._extensions = {"timeout": {**timeout.as_dict(), "read": None}}
        self._addresses: dict[str, httpx.URL] = {}
        self._transport = AiohttpTransport(
            # Reading the certificates of all authorities takes long, and plain HTTP needs none.
            verify=any(url.startswith("https") for url in settings.engine_urls),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_IDLE_S),
            trust_env=False,
        )
        self._http = httpx.AsyncClient(
            headers=headers, timeout=timeout, transport=self._transport, trust_env=False
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    @property
    def knows_identity(self) -> bool:
        """Whether `identity` answers without asking the engine."""
        return self._identity is not None

    @property
    def identity_is_old(self) -> bool:
        """Whether the engine may have been restarted with another model since it was asked."""
        return time.monotonic() - self._asked_at > IDENTITY_AGE_S

    async def identity(self, *, fresh: bool = False) -> EngineIdentity:
        """The base model behind the engine, asked once and after it changed.

        Raises:
            EngineError: no replica answers, or none lists a base model.
        """
        if self._identity is None or fresh:
            models = await self._models()
            self._identity = await asyncio.to_thread(read_identity, self._settings, models)
            self._asked_at = time.monotonic()
        return self._identity

    async def health(self) -> dict[str, bool]:
        """Whether each replica's `/health` says yes, by its URL."""
        urls = self._settings.engine_urls
        return dict(zip(urls, await asyncio.gather(*map(self._healthy, urls)), strict=True))

    async def _healthy(self, url: str) -> bool:
        try:
            return (await self._http.get(f"{url}/health", timeout=IDENTITY_TIMEOUT_S)).is_success
        except httpx.HTTPError:
            return False

    async def _models(self) -> Json:
        failure: EngineError | None = None
        for url in self._settings.engine_urls:
            try:
                response = await self._http.get(f"{url}/v1/models", timeout=IDENTITY_TIMEOUT_S)
                if response.is_success:
                    return _object(response.content)
                failure = EngineError(f"the engine answered /v1/models with HTTP {response.status_code}")
            except httpx.HTTPError as error:
                failure = transport_failure(error)
        assert failure is not None
        raise failure

    @asynccontextmanager
    async def answer(
        self, path: str, body: Json, target: Target, sticky: str
    ) -> AsyncIterator[httpx.Response]:
        """A successful, unread response of the engine; leaving the context stops the generation.

        `sticky` keeps a session on one replica, where its prefix is cached. An adapter that the replica
        does not know, or a base name that changed, is put right once.

        Raises:
            RequestError: the engine refused the request itself.
            EngineError: the engine failed; EngineTimeout, Unavailable: it is too slow or too busy.
        """
        with patience(self._settings.engine_timeout_s) as limit:
            body = await self._named(path, body, target)
            response = await self._open(path, body, target, sticky)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = Heard(response.stream, limit)
            try:
                yield response
            except httpx.HTTPError as error:
                raise transport_failure(error) from error
            finally:
                await response.aclose()

    async def _named(self, path: str, body: Json, target: Target) -> Json:
        identity = await self.identity()
        body = {**body, "model": target.adapter or identity.served_name}
        most = identity.max_model_len
        for name in LIMITS & body.keys():
            asked = body[name]
            if most is None or not isinstance(asked, int) or asked < most:
                continue
            # Some agents always ask for 65,536: the engine gives what there is room for. A chat needs no
            # limit for that; a completion without one would be 16 tokens.
            if path == COMPLETIONS:
                body[name] = most
            else:
                del body[name]
        return body

    async def _open(self, path: str, body: Json, target: Target, sticky: str) -> httpx.Response:
        response = await self._send(path, body, sticky)
        if response.is_success:
            return response
        refused = await refusal(response, self._key)
        if response.status_code == 404:
            await self._put_right(str(response.request.url).removesuffix(path), target)
            body = await self._named(path, body, target)
        elif isinstance(refused, ContextLengthExceeded) and LIMITS & body.keys() and path != COMPLETIONS:
            # The prompt fits, the limit asked for does not: what room there is, is what was meant.
            body = {name: value for name, value in body.items() if name not in LIMITS}
        else:
            raise refused
        response = await self._send(path, body, sticky)
        if response.is_success:
            return response
        raise await refusal(response, self._key)

    async def _send(self, path: str, body: Json, sticky: str) -> httpx.Response:
        content = orjson.dumps(body)
        failure: EngineError | None = None
        for url in ranked(self._settings.engine_urls, sticky):
            address = self._address(url + path)
            # With its stream given, no headers are worked out, which aiohttp would do once more.
            request = httpx.Request(
                "POST",
                address,
                headers=self._headers,
                stream=httpx.ByteStream(content),
                extensions=self._extensions,
            )
            request.read()
            try:
                # Past the client's redirects, cookies and authentication, none of which an engine has.
                return await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = transport_failure(error)  # nothing was asked yet: another replica may answer
            except httpx.HTTPError as error:
                raise transport_failure(error) from error
        assert failure is not None
        raise failure

    def _address(self, url: str) -> httpx.URL:
        """Remembered, which is quicker than reading it; there are as many as replicas and protocols."""
        if url not in self._addresses:
            self._addresses[url] = httpx.URL(url)
        return self._addresses[url]

    async def _put_right(self, url: str, target: Target) -> None:
        if target.adapter is None or target.path is None:
            await self.identity(fresh=True)
            return
        await self._load(url, target.adapter, target.path)

    async def load_everywhere(self, name: str, path: str) -> None:
        """Load an adapter on every replica; one that is away loads it on its first 404.

        Raises:
            EngineError: a replica refused it.
        """
        refused: EngineError | None = None
        for url in self._settings.engine_urls:
            try:
                await self._load(url, name, path)
            except EngineError as error:
                log.warning("adapter_not_loaded", adapter=name, code=error.code)
                refused = error if error.code == "adapter_unavailable" else refused
        if refused is not None:
            raise refused

    async def _load(self, url: str, name: str, path: str) -> None:
        async with self._loading.setdefault((url, name), asyncio.Lock()):
            try:
                response = await self._http.post(
                    f"{url}/v1/load_lora_adapter",
                    json={"lora_name": name, "lora_path": path},
                    timeout=httpx.Timeout(LOAD_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                )
            except httpx.HTTPError as error:
                raise transport_failure(error) from error
            finally:
                self._loading.pop((url, name), None)
        if response.is_success or (response.status_code == 400 and "already" in response.text):
            return
        log.warning("adapter_refused", adapter=name, status=response.status_code)
        raise AdapterUnavailable(name, told(response.content)[0])


async def whole(response: httpx.Response) -> bytes:
    """The body of an answer, as it came: no encoding was asked for, so there is none to undo."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return b"".join([piece async for piece in response.stream])


def ranked(urls: Sequence[str], sticky: str) -> list[str]:
    """Replicas in the order in which a session tries them: the same for every gateway process."""
    if len(urls) == 1:
        return list(urls)
    return sorted(urls, key=lambda url: hashlib.sha256(f"{sticky}/{url}".encode()).digest())


def _object(raw: bytes) -> Json:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise EngineError("The engine answered what is not JSON.") from None
    if not isinstance(value, dict):
        raise EngineError("The engine answered what is not a JSON object.")
    return value
