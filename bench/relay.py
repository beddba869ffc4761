"""The least that a gateway can be: a FastAPI relay on the same HTTP client, which records nothing.

RELAY_ENGINE_URL=… uvicorn bench.relay:app
"""

import os

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from httpx_aiohttp import AiohttpTransport

app = FastAPI()
client = httpx.AsyncClient(
    base_url=os.environ.get("RELAY_ENGINE_URL", "http://127.0.0.1:8000"),
    transport=AiohttpTransport(verify=False, limits=httpx.Limits(max_connections=1024)),
    timeout=600,
)


@app.post("/v1/chat/completions")
async def relay(request: Request) -> Response:
    """Pass a request on, and its answer back as it comes."""
    content = await request.body()
    asked = client.build_request(
        "POST", request.url.path, content=content, headers={"Content-Type": "application/json"}
    )
    answer = await client.send(asked, stream=True)
    kind = answer.headers["content-type"]
    if kind.startswith("text/event-stream"):
        return StreamingResponse(answer.aiter_raw(), answer.status_code, media_type=kind)
    return Response(await answer.aread(), answer.status_code, media_type=kind)
