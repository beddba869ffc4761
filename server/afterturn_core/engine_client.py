"""One engine dialect, vLLM's HTTP API: what the trainer, the gate and `doctor` ask of an engine.

The gateway's streaming path is its own; everything here is a single answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from .errors import AdapterError, EngineError, EngineTimeout

CONNECT_TIMEOUT_S = 5.0  # an engine on this machine or this network answers at once or not at all
LOAD_TIMEOUT_S = 120.0  # a large adapter from a cold disk
BASE = "base"


@dataclass(frozen=True)
class Completion:
    """One sampled reply: `logprobs[t]` is the natural log-probability of `token_ids[t]`."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    prompt_token_ids: tuple[int, ...]
    finish_reason: str | None


@dataclass(frozen=True)
class EngineModelCard:
    """One model that the engine serves: the base, or an adapter with its parent."""

    id: str
    parent: str | None
    max_model_len: int | None


class EngineClient:
    """A connection to one engine replica. `transport` lets tests and tools choose the wire."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = 600.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.base_url = base_url
        self._http = httpx.Client(
            base_url=base_url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            transport=transport,
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def healthy(self) -> bool:
        """Whether `/health` says yes."""
        try:
            return self._http.get("/health", timeout=CONNECT_TIMEOUT_S).is_success
        except httpx.TransportError:
            return False

    def models(self) -> tuple[EngineModelCard, ...]:
        """What the engine serves now."""
        data = self._json("GET", "/v1/models")["data"]
        return tuple(
            EngineModelCard(card["id"], card.get("parent"), card.get("max_model_len")) for card in data
        )

    def base_model(self) -> EngineModelCard:
        """The base model's card: the first that has no parent.

        Raises:
            EngineError: the engine serves no base model.
        """
        for card in self.models():
            if card.parent is None:
                return card
        raise EngineError(f"the engine at {self.base_url} lists no base model")

    def load_adapter(self, name: str, path: str) -> None:
        """Load an adapter folder under an immutable name; loading it twice is fine.

        Raises:
            AdapterError: the engine refused it; the message is the engine's reason.
        """
        response = self._request(
            "POST",
            "/v1/load_lora_adapter",
            json={"lora_name": name, "lora_path": path},
            timeout=LOAD_TIMEOUT_S,
        )
        if response.is_success or any(card.id == name for card in self.models()):
            return
        raise AdapterError(f"the engine refused adapter {name}: {_message(response)}")

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter; one that is not there is fine."""
        response = self._request("POST", "/v1/unload_lora_adapter", json={"lora_name": name})
        if response.status_code not in (200, 400, 404):
            raise EngineError(f"unloading {name}: {_message(response)}")

    def prompt_logprobs(self, model: str, token_ids: Sequence[int]) -> list[float | None]:
        """log p(token_t | tokens before t) of every position of a prompt; the first is `None`."""
        body = self._json(
            "POST",
            "/v1/completions",
            {
                "model": model,
                "prompt": list(token_ids),
                "max_tokens": 1,
                "temperature": 0,
                "prompt_logprobs": 0,
            },
        )
        entries = body["choices"][0]["prompt_logprobs"]
        values: list[float | None] = []
        for token_id, entry in zip(token_ids, entries, strict=True):
            values.append(None if entry is None else float(entry[str(token_id)]["logprob"]))
        return values

    def chat(
        self,
        model: str,
        messages: Sequence[dict[str, Any]],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """One reply to a conversation, with its ids and raw log-probabilities."""
        request: dict[str, Any] = {
            "model": model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "logprobs": True,
            "return_token_ids": True,
        }
        if seed is not None:
            request["seed"] = seed
        body = self._json("POST", "/v1/chat/completions", request)
        choice = body["choices"][0]
        logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
        if len(logprobs) != len(choice["token_ids"]) or not all(map(math.isfinite, logprobs)):
            raise EngineError("the engine's log-probabilities do not match its token ids")
        return Completion(
            text=choice["message"]["content"] or "",
            token_ids=tuple(choice["token_ids"]),
            logprobs=logprobs,
            prompt_token_ids=tuple(body["prompt_token_ids"]),
            finish_reason=choice["finish_reason"],
        )

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self._request(method, path, json=body)
        if not response.is_success:
            raise EngineError(f"{path}: {_message(response)}")
        answer = response.json()
        if not isinstance(answer, dict):
            raise EngineError(f"{path}: not a JSON object")
        return answer

    def _request(
        self, method: str, path: str, *, json: object = None, timeout: float | None = None
    ) -> httpx.Response:
        try:
            return self._http.request(
                method, path, json=json, timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
            )
        except httpx.TimeoutException as error:
            raise EngineTimeout(f"the engine at {self.base_url} did not answer {path} in time") from error
        except httpx.TransportError as error:
            raise EngineError(f"the engine at {self.base_url} cannot be reached: {error}") from error


def _message(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        return f"HTTP {response.status_code}"
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return f"HTTP {response.status_code}: {message}"
