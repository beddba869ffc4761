"""The engine under test, as its clients see it: an address that speaks vLLM's dialect."""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]

# Chosen so that the tiny model's greedy reply has plain text in it and does not end at once.
MESSAGES = [
    {"role": "system", "content": "You are the assistant of a user."},
    {"role": "user", "content": "Tell the user the story of the sea and the stars."},
]
# More than any engine here needs to start an answer on a busy machine; a hang fails with this.
TIMEOUT_S = 300.0


@dataclass
class Engine:
    """One running engine; it may load what lies in `adapters`, and has no `model` if it has no weights."""

    kind: str
    http: httpx.Client
    adapters: Path
    model: Path | None = None
    _names: "itertools.count[int]" = field(default_factory=itertools.count)

    def post(self, path: str, body: object) -> httpx.Response:
        return self.http.post(path, json=body)

    def chat(self, **fields: object) -> Json:
        """A greedy chat of 24 tokens unless `fields` say otherwise; fails unless it is answered."""
        return _answered(self.post("/v1/chat/completions", chat_body(**fields)))

    def complete(self, **fields: object) -> Json:
        return _answered(self.post("/v1/completions", completion_body(**fields)))

    def chat_events(self, **fields: object) -> list[Json]:
        return self._events("/v1/chat/completions", chat_body(**fields, stream=True))

    def completion_events(self, **fields: object) -> list[Json]:
        return self._events("/v1/completions", completion_body(**fields, stream=True))

    def _events(self, path: str, body: Json) -> list[Json]:
        """Every event of a stream, the end mark checked and left out."""
        with self.http.stream("POST", path, json=body) as response:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def load(self, name: str, folder: Path) -> httpx.Response:
        return self.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})

    def unload(self, name: str) -> httpx.Response:
        return self.post("/v1/unload_lora_adapter", {"lora_name": name})

    def loaded(self, folder: Path) -> str:
        """Load `folder` under a name nobody used before."""
        name = self.fresh_name()
        response = self.load(name, folder)
        assert response.status_code == 200, response.text
        return name

    def fresh_name(self) -> str:
        return f"agent@v{next(self._names)}"

    def served(self) -> list[str]:
        return [card["id"] for card in _answered(self.http.get("/v1/models"))["data"]]


def chat_body(**fields: object) -> Json:
    return {"model": "base", "messages": MESSAGES, "temperature": 0, "max_tokens": 24, **fields}


def completion_body(**fields: object) -> Json:
    return {"model": "base", "prompt": "the sea and the stars", "temperature": 0, "max_tokens": 24, **fields}


def _answered(response: httpx.Response) -> Json:
    assert response.status_code == 200, response.text
    body = response.json()
    assert isinstance(body, dict)
    return body
