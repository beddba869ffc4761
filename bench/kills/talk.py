"""Clients that talk while processes die, and remember exactly what was acknowledged to them."""

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

QUESTIONS = ("What is a mutex?", "How do tides work?", "Why is the sky blue?", "What is a heap?")
REACTIONS = (
    "That's way too long. Please answer in one short sentence.",
    "No, that is wrong. Please use plain words.",
    "Thanks, that is exactly what I needed!",
    "Please do not use lists.",
    "Tell me more about that.",
)
MAX_TOKENS = 12
PATIENCE_S = 30.0  # for one answer
RETRY_S = 0.4
ATTEMPTS = 60


@dataclass(frozen=True)
class AcknowledgedTurn:
    """A reply whose last byte was read, with the ids that its client saw."""

    id: str
    adapter: str
    token_ids: tuple[int, ...]
    streamed: bool


@dataclass(frozen=True)
class AcknowledgedFeedback:
    """An event that was answered with its id."""

    id: str
    turn_id: str


@dataclass
class Heard:
    """What one client was told."""

    turns: list[AcknowledgedTurn] = field(default_factory=list)
    feedback: list[AcknowledgedFeedback] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    lies: list[str] = field(default_factory=list)  # answers that deny what was acknowledged


class NotAcknowledged(Exception):
    """The answer did not come, or not to its end; the message is its kind."""


class Talker:
    """One client: conversations of three messages, streamed or not, some replies with a thumb."""

    def __init__(self, url: str, api_key: str, seed: int) -> None:
        self.heard = Heard()
        self._random = random.Random(seed)
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"talker-{seed}")

    def start(self) -> None:
        """Begin to talk."""
        self._thread.start()

    def stop(self) -> None:
        """End after the answer that is being waited for."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()
        self._http.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._converse()

    def _converse(self) -> None:
        # A number of its own, so that no two conversations have the same beginning.
        opening = f"{self._random.choice(QUESTIONS)} ({uuid4().hex[:8]})"
        messages: list[dict[str, str]] = []
        for text in (opening, self._random.choice(REACTIONS), "And what follows from that?"):
            messages.append({"role": "user", "content": text})
            reply = self._ask_until_answered(messages)
            if reply is None:
                return
            messages.append({"role": "assistant", "content": reply})
            if self._random.random() < 0.25:
                self._give_thumb(self.heard.turns[-1].id)
            self._stop.wait(self._random.uniform(0.3, 1.2))

    def _ask_until_answered(self, messages: list[dict[str, str]]) -> str | None:
        body = {
            "model": "default",
            "messages": messages,
            "max_tokens": MAX_TOKENS,
            "return_token_ids": True,
            "stream": self._random.random() < 0.5,
        }
        for _ in range(ATTEMPTS):
            if self._stop.is_set():
                return None
            try:
                text, turn = self._streamed(body) if body["stream"] else self._whole(body)
            except NotAcknowledged as reason:
                self.heard.failures[str(reason)] += 1
                self._stop.wait(RETRY_S)
                continue
            self.heard.turns.append(turn)
            return text
        return None

    def _whole(self, body: dict[str, Any]) -> tuple[str, AcknowledgedTurn]:
        try:
            answer = self._http.post("/v1/chat/completions", json=body)
        except httpx.TransportError as error:
            raise NotAcknowledged(type(error).__name__) from error
        if answer.status_code != 200:
            raise NotAcknowledged(f"HTTP {answer.status_code}")
        choice = answer.json()["choices"][0]
        return choice["message"]["content"] or "", _turn(answer, choice["token_ids"], streamed=False)

    def _streamed(self, body: dict[str, Any]) -> tuple[str, AcknowledgedTurn]:
        ids: list[int] = []
        text = last = ""
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    raise NotAcknowledged(f"HTTP {answer.status_code}")
                for last in _events(answer):
                    if last == "[DONE]":
                        break
                    event = json.loads(last)
                    if "error" in event:
                        raise NotAcknowledged("error event")
                    for choice in event["choices"]:
                        text += choice["delta"].get("content") or ""
                        ids += choice.get("token_ids") or []
        except httpx.TransportError as error:
            raise NotAcknowledged(type(error).__name__) from error
        if last != "[DONE]":
            raise NotAcknowledged("stream without its end")
        return text, _turn(answer, ids, streamed=True)

    def _give_thumb(self, turn_id: str) -> None:
        event = {
            "turn_id": turn_id,
            "kind": "thumb",
            "value": self._random.choice((-1, 1)),
            "idempotency_key": uuid4().hex,
        }
        for _ in range(ATTEMPTS):
            if self._stop.is_set():
                return
            try:
                answer = self._http.post("/v1/feedback", json=event)
            except httpx.TransportError as error:
                self.heard.failures[f"feedback {type(error).__name__}"] += 1
            else:
                if answer.status_code in (200, 201):
                    self.heard.feedback.append(AcknowledgedFeedback(answer.json()["id"], turn_id))
                    return
                if answer.status_code in (404, 409):
                    self.heard.lies.append(f"feedback on {turn_id}: HTTP {answer.status_code}")
                    return
                self.heard.failures[f"feedback HTTP {answer.status_code}"] += 1
            self._stop.wait(RETRY_S)


def _events(answer: httpx.Response) -> Iterator[str]:
    """The data of every event. Lines end with a line feed and nothing else: httpx' own `iter_lines` also
    splits at the many other line breaks of Unicode, which a random model does say."""
    rest = b""
    for chunk in answer.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line[6:].decode() for line in lines if line.startswith(b"data: "))


def _turn(answer: httpx.Response, ids: list[int], *, streamed: bool) -> AcknowledgedTurn:
    return AcknowledgedTurn(answer.headers["x-turn-id"], answer.headers["x-adapter"], tuple(ids), streamed)
