"""What every route shares: reading a body, sending a stream, noticing that the client has left."""

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from afterturn_engine.scripted.dialect import DONE, event
from afterturn_engine.scripted.engine import CutError, Received, ScriptedEngine
from afterturn_engine.scripted.errors import BadRequest, Broken, ClientLeft, EngineError, Malformed
from afterturn_engine.scripted.script import Script

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


async def read(engine: ScriptedEngine, request: Request, shape: type[R]) -> R:
    """The body as `shape`, noted down; raises Malformed for anything else."""
    try:
        body = json.loads(await request.body())
        asked = shape.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]))
        raise Malformed(f"1 validation error:\n  {where}: {first['msg']}", param=where) from error
    except ValueError as error:
        raise Malformed(f"1 validation error:\n  body: not JSON: {error}", param="body") from error
    engine.received.append(Received(request.url.path, dict(request.headers), body))
    return asked


def refusal(error: EngineError) -> Response:
    headers = {}
    if isinstance(error, Broken) and error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse(error.body, error.status, headers)


def allowance(script: Script, prompt_tokens: int, asked: int | None) -> int:
    """Tokens the reply may have: what was asked for, or what room is left.

    Raises BadRequest if the prompt leaves no room or more is asked for than the
    whole context holds; anything between is cut down without a word.
    """
    context = script.context_length
    if prompt_tokens >= context:
        raise BadRequest(
            f"This model's maximum context length is {context} tokens. However, your prompt contains "
            f"{prompt_tokens} input tokens, which leaves no room for output tokens. Please reduce the "
            "length of the input prompt.",
            param="input_tokens",
        )
    if asked is not None and asked > context:
        raise BadRequest(
            f"max_tokens={asked} cannot be greater than max_model_len={context}. "
            "Please request fewer output tokens.",
            param="max_tokens",
        )
    room = context - prompt_tokens
    return room if asked is None else min(asked, room)


class EventStream(StreamingResponse):
    """Server-sent events, then the end mark. A failure is told in the stream: the status is already sent."""

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        self.events = _until_done(events)
        super().__init__(self.events, media_type="text/event-stream")

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.events):
            try:
                await super().stream_response(send)
            except CutError:
                # Left without its last part, the answer makes the server close the connection.
                return


async def _until_done(events: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(events):
        try:
            async for text in events:
                yield text
        except Broken as error:
            yield event(error.body)
        yield DONE


class CutBody(Response):
    """Half of a body: the announced length never comes, so the connection is closed on the client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": "', "more_body": True})


async def while_connected(request: Request, work: Coroutine[None, None, T]) -> T:
    """What `work` comes to; raises ClientLeft, and stops it, if the client hangs up first."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft("The client hung up before its reply was complete.")
        return await working
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
