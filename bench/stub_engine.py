"""An engine that costs nothing: vLLM's answers, written down once. For measuring what stands before it.

python -m bench.stub_engine --port 8000
"""

import argparse
import asyncio
import json

TOKENS = 20
_ID = "chatcmpl-0123456789abcdef0123456789abcdef"
_PROMPT = list(range(100, 140))


def _logprob(number: int) -> dict[str, object]:
    text = f"word{number} "
    return {"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}


def _plain() -> bytes:
    """A whole chat completion of 20 tokens."""
    body = {
        "id": _ID,
        "object": "chat.completion",
        "created": 1,
        "model": "base",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "".join(f"word{number} " for number in range(TOKENS)),
                    "refusal": None,
                    "reasoning": None,
                },
                "logprobs": {"content": [_logprob(number) for number in range(TOKENS)]},
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": list(range(200, 200 + TOKENS)),
            }
        ],
        "usage": {"prompt_tokens": len(_PROMPT), "total_tokens": 60, "completion_tokens": TOKENS},
        "prompt_token_ids": _PROMPT,
    }
    return _answer(json.dumps(body).encode())


def _answer(content: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _event(delta: dict[str, object], number: int | None, **more: object) -> bytes:
    scored = number is not None
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": {"content": [_logprob(number)]} if scored else None,
        "finish_reason": "stop" if number == TOKENS - 1 else None,
        "token_ids": [200 + number] if scored else None,
    }
    body = {"id": _ID, "object": "chat.completion.chunk", "created": 1, "model": "base", "choices": [choice]}
    return b"data: " + json.dumps({**body, **more}).encode() + b"\n\n"


def _pieces() -> list[bytes]:
    """The events of a stream, each as the chunk that carries it."""
    opening = _event({"role": "assistant", "content": ""}, None, prompt_token_ids=_PROMPT)
    tokens = [_event({"content": f"word{number} "}, number) for number in range(TOKENS)]
    events = [opening, *tokens, b"data: [DONE]\n\n"]
    return [f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events] + [b"0\r\n\r\n"]


_PLAIN = _plain()
_STREAM = _pieces()
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_MODELS = _answer(
    json.dumps(
        {
            "object": "list",
            "data": [
                {"id": "base", "object": "model", "root": "base", "parent": None, "max_model_len": 8192}
            ],
        }
    ).encode()
)


class StubEngine(asyncio.Protocol):
    """One connection; requests are answered as soon as they are whole."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = 0
            if (at := head.find(b"content-length:")) >= 0:
                length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(self._received) < end + 4 + length:
                return
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            self._reply(head, body)

    def _reply(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        if head.startswith(b"get /v1/models"):
            self._transport.write(_MODELS)
        elif head.startswith(b"get "):
            self._transport.write(_answer(b""))
        elif b'"stream":true' in body.replace(b" ", b""):
            self._transport.write(_STREAM_HEAD)
            self._next(0)
        else:
            self._transport.write(_PLAIN)

    def _next(self, number: int) -> None:
        """One event a turn of the loop, so that they travel one by one as a model's tokens do."""
        assert self._transport is not None
        if number < len(_STREAM) and not self._transport.is_closing():
            self._transport.write(_STREAM[number])
            asyncio.get_running_loop().call_soon(self._next, number + 1)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(StubEngine, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="vLLM's answers, written down once")
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(_serve(parser.parse_args().port))
