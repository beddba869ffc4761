"""Every protocol over the embedded engine with a tiny model: a real tokenizer and template."""

import json
import subprocess
import sys
import time

import httpx
import pytest
from tests.tiny_model import build_tiny_model

from .conftest import free_port
from .protocols import PATHS, TALKING, assistant, body, said, user

PATIENCE_S = 300.0
GREEDY = {"temperature": 0}


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """The URL of an embedded engine of its own, and its model's folder."""
    folder = tmp_path_factory.mktemp("embedded")
    model = build_tiny_model(folder / "model")
    port = free_port()
    arguments = ["--port", str(port), "--model", str(model), "--adapter-root", str(folder), "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "afterturn_engine", *arguments])
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE_S
        while not _healthy(url):
            assert process.poll() is None
            assert time.monotonic() < end, "the engine did not start"
            time.sleep(0.2)
        yield url, str(model)
    finally:
        process.terminate()
        process.wait()


def _healthy(url):
    try:
        return httpx.get(f"{url}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def install(start, embedded):
    url, model = embedded
    with start(engine_url=url, model=model) as stack:
        yield stack


def limited(protocol, limit):
    return {"max_output_tokens" if protocol == "responses" else "max_tokens": limit}


@pytest.mark.parametrize("protocol", PATHS)
def test_a_stream_says_and_records_what_the_whole_answer_does(install, protocol):
    """B11, B35"""
    asked = body(protocol, [user("hello you")], **GREEDY, **limited(protocol, 12))
    with install.client() as client:
        whole = client.post(PATHS[protocol], json=asked)
        streamed = client.post(PATHS[protocol], json={**asked, "stream": True})
    assert whole.status_code == streamed.status_code == 200, (whole.text, streamed.text)
    one, other = (install.turn(answer.headers["x-turn-id"]) for answer in (whole, streamed))
    for name in ("prompt_token_ids", "token_ids", "reply", "finish_reason", "state"):
        assert one[name] == other[name]
    assert one["state"] == "open"
    assert one["logprobs"] == pytest.approx(other["logprobs"], abs=1e-5)
    assert len(one["token_ids"]) == len(one["logprobs"]) == 12
    assert said(protocol, whole.json()) == one["reply"]["content"]
    events = [json.loads(line[6:]) for line in streamed.text.split("\n") if line.startswith("data: {")]
    pieces = {
        "chat": lambda event: event["choices"][0]["delta"].get("content") or "",
        "completions": lambda event: event["choices"][0]["text"],
        "responses": lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
        "messages": lambda event: event.get("delta", {}).get("text", ""),
    }[protocol]
    assert "".join(map(pieces, events)) == one["reply"]["content"]


def test_the_same_conversation_is_the_same_prompt_in_every_protocol(install):
    """B25, B43"""
    parts = {
        "chat": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
        "responses": [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}],
        "messages": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
    }
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    called = {
        "chat": [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
        "responses": [
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ],
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
        ],
    }
    prompts = []
    with install.client() as client:
        for protocol in TALKING:
            messages = [
                {"role": "user", "content": parts[protocol]},
                assistant("x"),
                user("A\nB"),
                *called[protocol],
                user("and now?"),
            ]
            answer = client.post(
                PATHS[protocol], json=body(protocol, messages, **GREEDY, **limited(protocol, 1))
            )
            assert answer.status_code == 200, answer.text
            prompts.append(install.turn(answer.headers["x-turn-id"])["prompt_token_ids"])
        counted = client.post(
            "/v1/messages/count_tokens", json={"model": "default", "messages": messages}
        ).json()
    assert prompts[0] == prompts[1] == prompts[2]
    assert counted == {"input_tokens": len(prompts[0])}


@pytest.mark.parametrize("protocol", TALKING)
def test_b43_an_image_is_refused_with_its_place(install, protocol):
    """B43"""
    image = {
        "chat": {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        "responses": {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
        "messages": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
        },
    }[protocol]
    with install.client() as client:
        answer = client.post(PATHS[protocol], json=body(protocol, [{"role": "user", "content": [image]}]))
    assert answer.status_code == 400, answer.text
    if protocol != "messages":
        assert (
            answer.json()["error"]["param"]
            == {"chat": "messages[0].content[0]", "responses": "input"}[protocol]
        )
    else:
        assert "messages[0].content" in answer.text


@pytest.mark.parametrize("protocol", PATHS)
def test_a_prompt_that_is_too_long_is_refused(install, protocol):
    with install.client() as client:
        answer = client.post(PATHS[protocol], json=body(protocol, [user("word " * 3000)]))
    assert answer.status_code == 400
    assert "context_length" in answer.text or "prompt is too long" in answer.text


def test_a_prompt_is_echoed_and_scored(install):
    with install.client() as client:
        asked = {
            "model": "default",
            "prompt": "hello you",
            "echo": True,
            "logprobs": 0,
            "max_tokens": 3,
            **GREEDY,
        }
        answer = client.post("/v1/completions", json=asked)
        assert answer.status_code == 200, answer.text
        choice = answer.json()["choices"][0]
    turn = install.turn(answer.headers["x-turn-id"])
    assert choice["text"] == "hello you" + turn["reply"]["content"]
    assert len(choice["logprobs"]["tokens"]) == len(turn["prompt_token_ids"]) + 3
    assert len(turn["logprobs"]) == len(turn["token_ids"]) == 3
    assert turn["logprobs"] == pytest.approx(choice["logprobs"]["token_logprobs"][-3:], abs=1e-5)
