"""The server as its clients see it: both forms of an answer, leaving early, hot swaps, keys, refusals."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.afterturn_engine.served import Json, Served, chat_body
from tests.tiny_model import build_tiny_adapter

from afterturn_engine.scheduler import Limits

Serve = Callable[..., Served]
LONG = [{"role": "user", "content": "hello the user and the system " * 50}]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 1.0, "seed": 3, "n": 2, "logprobs": True, "top_logprobs": 2},
        {"stop": ["s"], "logprobs": True},
        {"max_tokens": 1},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "logprobs": True},
    ],
)
def test_a_stream_adds_up_to_the_plain_answer(serve: Serve, fields: dict[str, Any]) -> None:
    served = serve()
    plain = served.chat(return_token_ids=True, **fields)
    chunks = served.chunks(return_token_ids=True, stream_options={"include_usage": True}, **fields)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    for choice in plain["choices"]:
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(p["delta"].get("content") or "" for p in parts) == choice["message"]["content"]
        assert [i for p in parts for i in p.get("token_ids") or ()] == choice["token_ids"]
        assert parts[-1]["finish_reason"] == choice["finish_reason"]
        assert [p["finish_reason"] for p in parts[:-1]] == [None] * (len(parts) - 1)
        assert parts[-1]["stop_reason"] == choice["stop_reason"]
        if "logprobs" in fields:
            listed = [entry for p in parts if p["logprobs"] for entry in p["logprobs"]["content"]]
            assert [e["token"] for e in listed] == [e["token"] for e in choice["logprobs"]["content"]]
            assert len(listed) == len(choice["token_ids"])


def test_completions_stream_adds_up_too(serve: Serve) -> None:
    served = serve()
    body: Json = {
        "prompt": ["hello", "the user"],
        "temperature": 0,
        "max_tokens": 6,
        "echo": True,
        "logprobs": 1,
    }
    plain = served.post("/v1/completions", body)
    chunks = served.chunks("/v1/completions", **body)
    for choice in plain["choices"]:
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(p["text"] for p in parts) == choice["text"]
        assert [t for p in parts for t in p["logprobs"]["tokens"]] == choice["logprobs"]["tokens"]
        assert [t for p in parts for t in p["logprobs"]["text_offset"]] == choice["logprobs"]["text_offset"]
    assert plain["choices"][0]["text"].startswith("hello")


def test_many_requests_through_http_equal_one_at_a_time(serve: Serve) -> None:
    """Field case B21 over HTTP."""
    served = serve()
    for name in ("a@v1", "b@v1"):
        served.http.post("/v1/load_lora_adapter", json={"lora_name": name, "lora_path": name})
    names = ["a@v1", "a@v1", "base", "b@v1", "b@v1", "base"]
    bodies = [
        chat_body(model=name, max_tokens=20, return_token_ids=True, seed=row)
        for row, name in enumerate(names)
    ]
    serial = [served.post("/v1/chat/completions", body)["choices"][0]["token_ids"] for body in bodies]

    async def together() -> list[list[int]]:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=60, trust_env=False) as http:
            answers = await asyncio.gather(*(http.post("/v1/chat/completions", json=b) for b in bodies))
        return [answer.json()["choices"][0]["token_ids"] for answer in answers]

    assert asyncio.run(together()) == serial
    assert len({tuple(ids) for ids in serial}) == 3


def leave(served: Served, body: Json, when: Callable[[], bool]) -> None:
    """Send a request and close the connection once `when` holds."""

    async def run() -> None:
        port = served.http.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        content = json.dumps(body).encode()
        lines = (
            "POST /v1/chat/completions HTTP/1.1",
            "Host: x",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "\r\n",
        )
        writer.write("\r\n".join(lines).encode() + content)
        await writer.drain()
        async with asyncio.timeout(60):
            while not when():
                await asyncio.sleep(0.001)
        writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("window", ["prefill", "reply", "queue"])
def test_a_client_that_leaves_stops_the_work(serve: Serve, stream: bool, window: str) -> None:
    """Field case B07."""
    served = serve(Limits(sequences=1), api_key=None)
    scheduler = served.engine.scheduler
    body = chat_body(max_tokens=1500, stream=stream, ignore_eos=True)
    if window == "reply":
        leave(served, body, lambda: scheduler.sampled_tokens >= 3)
    elif window == "prefill":
        leave(served, body | {"messages": LONG, "max_tokens": 200}, lambda: scheduler.load[0] == 1)
    else:

        async def both() -> None:
            first = asyncio.to_thread(leave, served, body, lambda: scheduler.load[1] == 0 and second_left)
            waiting = asyncio.create_task(first)
            while scheduler.load[0] == 0:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(leave, served, body, lambda: scheduler.load == (1, 1))
            nonlocal second_left
            second_left = True
            await waiting

        second_left = False
        asyncio.run(both())
    served.wait_until_idle()
    assert scheduler.sampled_tokens < 1000
    assert len(served.chat(max_tokens=2, return_token_ids=True)["choices"][0]["token_ids"]) == 2


def test_a_hot_swap_shows_in_the_next_request(serve: Serve, model_folder: Path, adapter_root: Path) -> None:
    """Field case B01: the same name with other weights, warm and cold."""
    served = serve()
    build_tiny_adapter(adapter_root, model_folder, "live-1", scale=0.3, seed=11)
    build_tiny_adapter(adapter_root, model_folder, "live-2", scale=0.3, seed=12)

    def replies(path: str, name: str) -> list[list[float]]:
        served.http.post("/v1/load_lora_adapter", json={"lora_name": name, "lora_path": path})
        found = []
        for _ in range(2):
            answer = served.chat(model=name, messages=LONG, logprobs=True, max_tokens=4)
            found.append([entry["logprob"] for entry in answer["choices"][0]["logprobs"]["content"]])
        assert served.http.post("/v1/unload_lora_adapter", json={"lora_name": name}).status_code == 200
        return found

    old, new = replies("live-1", "live"), replies("live-2", "live")
    alone = replies("live-2", "another")
    assert new[0] == pytest.approx(alone[0], abs=1e-3)
    assert new[1] == pytest.approx(alone[0], abs=1e-3)
    assert old[0] == pytest.approx(old[1], abs=1e-3)
    assert old[0] != pytest.approx(new[0], abs=1e-3)


def test_a_key_is_wanted_everywhere_but_for_health(serve: Serve) -> None:
    served = serve(api_key="s3cret")
    assert served.http.get("/health").status_code == 200
    for path in ("/v1/models", "/version", "/metrics", "/nope"):
        assert served.http.get(path).status_code == 401
        assert served.http.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    for path in ("/v1/chat/completions", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/tokenize"):
        assert served.http.post(path, json={}).status_code == 401
    assert served.http.get("/v1/models", headers={"authorization": "Bearer s3cret"}).status_code == 200


def test_a_full_queue_says_when_to_come_back(serve: Serve) -> None:
    served = serve(Limits(sequences=1, queue=1))
    response = served.http.post("/v1/chat/completions", json=chat_body(n=3, temperature=1.0))
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    error = response.json()["error"]
    assert (error["code"], error["type"]) == (503, "Service Unavailable")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"min_p": 2}, "min_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 4096}, "max_tokens"),
        ({"max_completion_tokens": 4096}, "max_completion_tokens"),
        ({"logprobs": True, "top_logprobs": 21}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stop": [""]}, "stop"),
        ({"min_tokens": 99}, "min_tokens"),
        ({"n": 65, "temperature": 1}, "n"),
        ({"tools": []}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f"}}],
                "tool_choice": {"type": "function", "function": {"name": "g"}},
            },
            "tool_choice",
        ),
        ({"messages": [{"role": "user", "content": "hello " * 2100}]}, "input_tokens"),
        ({"messages": [{"role": "user", "content": 5}]}, "body.messages.0.content"),
        ({"model": 5}, "body.model"),
        ({"seed": 1.5}, "body.seed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [True, False])
def test_refusals_name_the_field(serve: Serve, fields: Json, param: str, stream: bool) -> None:
    served = serve()
    response = served.http.post("/v1/chat/completions", json=chat_body(**fields) | {"stream": stream})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, 400)


def test_stream_options_need_a_stream(serve: Serve) -> None:
    body = chat_body(stream_options={"include_usage": True})
    response = serve().http.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "stream_options")


def test_a_reply_that_fails_in_the_stream_ends_with_an_error_event(serve: Serve) -> None:
    served = serve()
    chunks: list[Json] = []

    async def run() -> None:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=60, trust_env=False) as http:
            body = chat_body(max_tokens=1500, stream=True, ignore_eos=True)
            async with http.stream("POST", "/v1/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line and line != "data: [DONE]":
                        chunks.append(json.loads(line.removeprefix("data: ")))
                    if len(chunks) == 3:
                        await asyncio.to_thread(served.engine.scheduler.close)

    asyncio.run(run())
    assert chunks[-1] == {
        "error": {
            "message": "Internal server error",
            "type": "InternalServerError",
            "param": None,
            "code": 500,
        }
    }
    assert served.http.get("/health").status_code == 503
    assert served.http.post("/v1/chat/completions", json=chat_body()).status_code == 503
