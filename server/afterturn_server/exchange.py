"""One admitted request and its answer, in whatever protocol."""

import time
from contextlib import suppress

import orjson
from starlette.requests import Request
from starlette.types import Send

from afterturn_core.errors import AfterturnError, DatabaseAway, EngineError

from .answers import Json, JsonResponse
from .departure import ClientLeft, Watch
from .events import EventSender, events_in
from .gateway import Gateway
from .keeping import keep, turn_headers, unlogged
from .protocol import Call
from .recording import CLIENT_DISCONNECTED, ENGINE_FAILED, Asked
from .upstream import whole

_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class Exchange:
    """The engine's answer on its way to the client and into the record."""

    def __init__(self, gateway: Gateway, asked: Asked, call: Call) -> None:
        self._gateway = gateway
        self._asked = asked
        self._call = call
        self._wording = call.wording(asked)

    async def whole(self, watch: Watch, request: Request, send: Send) -> int:
        """Answer with one JSON body."""
        try:
            body = await watch.run(self._fetch())
        except ClientLeft:
            await self._keep(CLIENT_DISCONNECTED)
            return 499
        asked = self._asked
        try:
            await self._keep()
        except DatabaseAway:
            if not self._gateway.settings.serve_without_log:
                raise
            self._gateway.metrics.unlogged.inc()
            asked = unlogged(asked)
            body.pop("session_id", None)
        response = JsonResponse(body, headers=turn_headers(asked))
        await response(request.scope, request.receive, send)
        return 200

    async def stream(self, watch: Watch, send: Send) -> int:
        """Answer with events as the engine sends them; the last one follows the commit."""
        sender = EventSender(send, self._gateway.settings.keep_alive_s, self._wording.keep_alive)
        try:
            try:
                await watch.run(self._pump(sender))
            except ClientLeft:
                await self._keep(CLIENT_DISCONNECTED)
                return 499
            except AfterturnError as error:
                if not sender.started:
                    raise
                with suppress(DatabaseAway):  # the client is told that it failed in either case
                    await self._keep(ENGINE_FAILED)
                await sender.finish(self._wording.failed(error))
                return error.status
            return await self._finish(sender)
        finally:
            sender.stop()

    async def _keep(self, interrupted: str | None = None) -> None:
        for asked, answered in self._wording.records(interrupted):
            await keep(self._gateway, asked, answered)

    async def _fetch(self) -> Json:
        async with self._gateway.upstream.answer(
            self._call.path, self._call.body, self._asked.resolved.target, self._asked.place.session_id
        ) as response:
            raw = await whole(response)
        try:
            return self._wording.whole(orjson.loads(raw))
        except _ODD as error:
            raise EngineError("The engine answered what is not a completion.") from error

    async def _pump(self, sender: EventSender) -> None:
        asked = self._asked
        opened = time.perf_counter()
        async with self._gateway.upstream.answer(
            self._call.path, self._call.body, asked.resolved.target, asked.place.session_id
        ) as response:
            await sender.start(turn_headers(asked))
            if opening := self._wording.opening():
                await sender.events(opening)
            first = True
            async for group in events_in(response.aiter_raw()):
                if first:
                    self._gateway.metrics.first_chunk.observe(time.perf_counter() - opened)
                    first = False
                done = group[-1] == b"[DONE]"
                out: list[bytes] = []
                try:
                    for data in group[:-1] if done else group:
                        out.append(self._chunk(data))
                finally:  # what came in before a failure is in the record, so the client hears it too
                    if said := b"".join(out):
                        await sender.events(said)
                if done:
                    return
        raise EngineError("The engine's stream ended too early.", code="engine_connection_broken")

    def _chunk(self, data: bytes) -> bytes:
        """One event of the engine as the client's."""
        try:
            chunk = orjson.loads(data)
            if "error" in chunk:
                raise EngineError("The engine failed while it was answering.")
            return self._wording.chunk(chunk)
        except _ODD as error:
            raise EngineError("The engine sent what is not a chunk of a completion.") from error

    async def _finish(self, sender: EventSender) -> int:
        try:
            await self._keep()
        except Exception as error:
            # Without its record the reply does not count, and the client must not think it does.
            failure = error if isinstance(error, AfterturnError) else AfterturnError("not recorded")
            await sender.finish(self._wording.failed(failure))
            if failure is not error:
                raise
            return failure.status
        await sender.finish(self._wording.done())
        return 200
