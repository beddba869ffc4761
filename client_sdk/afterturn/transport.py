"""Drives flows with httpx: once blocking, once awaited. The only place with network I/O."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from importlib.metadata import version
from typing import TypeVar

import httpx

from afterturn.context import Context
from afterturn.errors import ConnectionFailed, RequestTimedOut
from afterturn.install import Lines
from afterturn.retry import status_error
from afterturn.wire import Exchange, Flow, JSONObject, Pause, Response

T = TypeVar("T")
VERSION = version("afterturn")

# Raised before the request left this machine.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
CONNECT_TIMEOUT_S = 5.0  # a server that is up accepts at once; one that is not should not hold up its caller


class BlockingTransport:
    """Runs a flow to its end in the caller's thread."""

    def __init__(self, context: Context, client: httpx.Client | None = None) -> None:
        self.context = context
        self._owned = client is None
        self._client = client or httpx.Client()

    def run(self, flow: Flow[T]) -> T:
        """The flow's result. Raises what the flow raises."""
        with closing(flow):
            response: Response | None = None
            failure: ConnectionFailed | None = None
            while True:
                try:
                    step = flow.throw(failure) if failure else flow.send(response)
                except StopIteration as done:
                    result: T = done.value
                    return result
                response = failure = None
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    continue
                try:
                    response = _response(self._client.send(_request(self._client, step, self.context)))
                except httpx.RequestError as error:
                    failure = _failure(error, self.context)

    def lines(self, step: Exchange) -> Iterator[JSONObject]:
        """The reply's JSON lines as they arrive. Raises as a verb does, and `MalformedReply`."""
        try:
            answer = self._client.send(_request(self._client, step, self.context), stream=True)
        except httpx.RequestError as error:
            raise _failure(error, self.context) from error
        with closing(answer):
            lines = Lines()
            try:
                if not answer.is_success:
                    answer.read()
                    raise status_error(_response(answer), self.context)
                for chunk in answer.iter_bytes():
                    yield from lines.feed(chunk)
            except httpx.RequestError as error:
                raise _failure(error, self.context) from error
            yield from lines.end()

    def close(self) -> None:
        """Let go of the connections, if they are ours."""
        if self._owned:
            self._client.close()


class AwaitingTransport:
    """Runs a flow to its end in the running asyncio loop."""

    def __init__(self, context: Context, client: httpx.AsyncClient | None = None) -> None:
        self.context = context
        self._owned = client is None
        self._client = client or httpx.AsyncClient()

    async def run(self, flow: Flow[T]) -> T:
        """The flow's result. Raises what the flow raises."""
        with closing(flow):
            response: Response | None = None
            failure: ConnectionFailed | None = None
            while True:
                try:
                    step = flow.throw(failure) if failure else flow.send(response)
                except StopIteration as done:
                    result: T = done.value
                    return result
                response = failure = None
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                try:
                    response = _response(await self._client.send(_request(self._client, step, self.context)))
                except httpx.RequestError as error:
                    failure = _failure(error, self.context)

    async def lines(self, step: Exchange) -> AsyncIterator[JSONObject]:
        """The reply's JSON lines as they arrive. Raises as a verb does, and `MalformedReply`."""
        request = _request(self._client, step, self.context)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.RequestError as error:
            raise _failure(error, self.context) from error
        async with aclosing(answer):
            lines = Lines()
            try:
                if not answer.is_success:
                    await answer.aread()
                    raise status_error(_response(answer), self.context)
                async for chunk in answer.aiter_bytes():
                    for line in lines.feed(chunk):
                        yield line
            except httpx.RequestError as error:
                raise _failure(error, self.context) from error
            for line in lines.end():
                yield line

    async def close(self) -> None:
        """Let go of the connections, if they are ours."""
        if self._owned:
            await self._client.aclose()


def _request(client: httpx.Client | httpx.AsyncClient, step: Exchange, context: Context) -> httpx.Request:
    headers = {
        "Authorization": f"Bearer {step.key}",
        "Accept": "application/json",
        "User-Agent": f"afterturn-python/{VERSION}",
    }
    if step.archive is not None:
        headers["Content-Type"] = "application/zip"
    return client.build_request(
        step.method,
        context.base_url + step.path,
        params=dict(step.params),
        json=step.body,
        content=step.archive,
        headers=headers,
        timeout=httpx.Timeout(context.timeout, connect=min(context.timeout, CONNECT_TIMEOUT_S)),
    )


def _response(answer: httpx.Response) -> Response:
    return Response(answer.status_code, dict(answer.headers), answer.content)


def _failure(error: httpx.RequestError, context: Context) -> ConnectionFailed:
    kind = RequestTimedOut if isinstance(error, httpx.TimeoutException) else ConnectionFailed
    reason = context.mask(str(error)) or type(error).__name__
    failure = kind(f"{context.base_url}: {reason}", sent=not isinstance(error, NEVER_SENT))
    failure.__cause__ = error
    return failure
