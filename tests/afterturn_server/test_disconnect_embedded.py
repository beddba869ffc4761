"""B07 over the embedded engine: whoever leaves frees it, and the next request is served."""

import asyncio
import socket
from contextlib import ExitStack

import orjson
import pytest
from tests.served import served
from tests.tiny_model import build_tiny_model

from afterturn_engine.adapters import Adapters
from afterturn_engine.engine import Engine
from afterturn_engine.grammar import Grammars
from afterturn_engine.model import load_model
from afterturn_engine.scheduler import Limits, Scheduler
from afterturn_engine.server import create_app
from afterturn_engine.template import Template

from .conftest import eventually

CLIENTS = 6


@pytest.fixture
def embedded(tmp_path):
    """(URL, scheduler) of an embedded engine on a tiny model."""
    model = load_model(str(build_tiny_model(tmp_path / "model")), None)
    (tmp_path / "adapters").mkdir()
    adapters = Adapters(tmp_path / "adapters", "base", model.targets, model.device, model.dtype)
    scheduler = Scheduler(model, Limits())
    grammars = Grammars(model.tokenizer, model.vocabulary_size, model.eos_token_ids)
    engine = Engine("base", model, Template(model.tokenizer), adapters, scheduler, grammars)
    scheduler.start()
    with served(create_app(engine)) as url:
        yield url, scheduler
    scheduler.close()


@pytest.mark.parametrize("streamed", [True, False])
def test_b07_leaving_frees_the_embedded_engine(start, embedded, streamed):
    url, scheduler = embedded
    with start(engine_url=url) as stack:
        message = {"role": "user", "content": "hello"}
        content = orjson.dumps(
            {
                "model": "default",
                "messages": [message],
                "stream": streamed,
                "max_tokens": 1900,
                "ignore_eos": True,
            }
        )
        with ExitStack() as clients:
            wires = [clients.enter_context(asked(stack, content)) for _ in range(CLIENTS)]
            for wire in wires if streamed else ():
                received = b""
                while received.count(b"data: ") < 4:
                    received += wire.recv(65536)
            eventually(lambda: scheduler.load[0] > 0)
        eventually(lambda: scheduler.load == (0, 0))
        assert stack.chat([message], max_tokens=3)["choices"]
        left = eventually(lambda: t if len(t := departed(stack)) == CLIENTS else None)
        for turn in left:
            assert (turn["state"], turn["finish_reason"]) == ("excluded", "client_disconnected")
            assert len(turn["token_ids"]) == len(turn["logprobs"])
            assert len(turn["token_ids"]) >= (2 if streamed else 0)
        loop = stack.app.state.gateway.loop
        eventually(lambda: asyncio.run_coroutine_threadsafe(count(), loop).result(60) < CLIENTS)


def departed(stack):
    turns = stack.admin("GET", "turns", params={"limit": 100}).json()["data"]
    return [turn for turn in turns if turn["excluded_reason"] == "client_disconnected"]


async def count():
    return len(asyncio.all_tasks())


def asked(stack, content):
    host, port = stack.url.removeprefix("http://").split(":")
    wire = socket.create_connection((host, int(port)))
    wire.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {stack.key}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
    return wire
