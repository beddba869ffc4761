"""The routes that generate: admitted, passed through, recorded, and only then finished."""

import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from afterturn_core.errors import AfterturnError, RequestError, Unavailable

from .admission import admit
from .body import read_object
from .departure import Watch
from .exchange import Exchange
from .gateway import Gateway
from .protocol import Call, Protocol
from .turn_options import TurnOptions, read_options

MAX_IN_FLIGHT = 1000  # requests at once in one process; more are told to come back
OVERLOAD_RETRY_S = 2.0


@dataclass
class InFlight:
    """How many requests are being answered now, by all routes that share it."""

    count: int = 0


class Inference:
    """One protocol's route, as a bare ASGI application: nothing stands between it and the connection."""

    def __init__(self, gateway: Gateway, protocol: Protocol, in_flight: InFlight) -> None:
        self._gateway = gateway
        self._protocol = protocol
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        metrics = self._gateway.metrics
        started = time.perf_counter()
        self._in_flight.count += 1
        status = 200
        try:
            with metrics.in_flight.track_inprogress():
                status = await self._answer(request, send)
        except AfterturnError as error:
            status = error.status
            await self._protocol.refusal(error)(scope, receive, send)
        finally:
            self._in_flight.count -= 1
            metrics.requests.labels(self._protocol.name, str(status)).inc()
            metrics.seconds.observe(time.perf_counter() - started)

    async def _answer(self, request: Request, send: Send) -> int:
        if self._in_flight.count > MAX_IN_FLIGHT:
            raise Unavailable("The gateway is overloaded.", code="overloaded", retry_after=OVERLOAD_RETRY_S)
        call, options = await self._read(request)
        asked = await admit(self._gateway, request, call.conversation, options)
        exchange = Exchange(self._gateway, asked, call)
        watch = Watch(request.receive)
        try:
            if call.stream:
                return await exchange.stream(watch, send)
            return await exchange.whole(watch, request, send)
        finally:
            watch.close()

    async def _read(self, request: Request) -> tuple[Call, TurnOptions]:
        try:
            body = await read_object(request, self._gateway.settings.max_body_bytes)
            options = read_options(request.headers, body)
            return await self._protocol.read(self._gateway, request, body), options
        except RequestError:
            await self._gateway.caller(request, "inference")  # a wrong key is the first thing wrong
            raise
