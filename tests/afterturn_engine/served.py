"""A running server and the engine inside it, for tests that look at both sides."""

import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

from afterturn_engine.engine import Engine

Json = dict[str, Any]
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Served:
    http: httpx.Client
    engine: Engine

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.01)
        raise AssertionError("the server did not become healthy")

    def wait_until_idle(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.engine.scheduler.load != (0, 0):
            assert time.monotonic() < deadline, f"still at work: {self.engine.scheduler.load}"
            time.sleep(0.01)

    def post(self, path: str, body: Json) -> Json:
        response = self.http.post(path, json=body)
        assert response.status_code == 200, response.text
        content = response.json()
        assert isinstance(content, dict)
        return content

    def chat(self, **fields: Any) -> Json:
        return self.post("/v1/chat/completions", chat_body(**fields))

    def chunks(self, path: str = "/v1/chat/completions", **fields: Any) -> list[Json]:
        body = chat_body(**fields) if path.endswith("chat/completions") else fields
        response = self.http.post(path, json={**body, "stream": True})
        assert response.status_code == 200, response.text
        events = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]


def chat_body(**fields: Any) -> Json:
    messages = [{"role": "user", "content": "hello the user"}]
    return {"messages": messages, "temperature": 0, "max_tokens": 12, **fields}
