"""Greedy replies of the engine to fixed prompts, each adapter asked once and remembered."""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from afterturn_core.engine_client import EngineClient
from afterturn_trainer.sample import Ids


@dataclass(frozen=True)
class GreedyReply:
    """One reply with its ids; `finished` is False when it was cut at the token limit."""

    text: str
    finished: bool
    prompt_ids: Ids
    reply_ids: Ids


@dataclass(frozen=True)
class Asked:
    """What is asked of whom: `identity` says whose weights answer (an adapter's checksum, or `base`), since
    a name alone may mean another adapter in another database."""

    model: str
    identity: str
    model_hash: str
    prompts: tuple[str, ...]
    max_tokens: int

    @property
    def key(self) -> str:
        content = json.dumps([self.identity, self.model_hash, self.max_tokens, *self.prompts])
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def greedy_replies(
    client: EngineClient, asked: Asked, memory: Path, concurrency: int, on_progress: Callable[[float], None]
) -> tuple[GreedyReply, ...]:
    """Replies in the order of the prompts, from memory where the same was asked before.

    `on_progress` gets the share done between any two replies; what it raises stops the asking.
    """
    file = memory / f"{asked.key}.json"
    remembered = _recall(file)
    if remembered is not None and len(remembered) == len(asked.prompts):
        return remembered

    def ask(prompt: str) -> GreedyReply:
        messages = [{"role": "user", "content": prompt}]
        reply = client.chat(asked.model, messages, max_tokens=asked.max_tokens)
        return GreedyReply(reply.text, reply.finish_reason == "stop", reply.prompt_token_ids, reply.token_ids)

    replies: list[GreedyReply] = []
    pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="greedy")
    try:
        for reply in pool.map(ask, asked.prompts):
            replies.append(reply)
            on_progress(len(replies) / len(asked.prompts))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    _remember(file, replies)
    return tuple(replies)


def _recall(file: Path) -> tuple[GreedyReply, ...] | None:
    try:
        rows = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return None  # half a file can only come from another program; asking again mends it
    return tuple(
        GreedyReply(row["text"], row["finished"], tuple(row["prompt_ids"]), tuple(row["reply_ids"]))
        for row in rows
    )


def _remember(file: Path, replies: Sequence[GreedyReply]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{secrets.token_hex(4)}.tmp")
    draft.write_text(json.dumps([asdict(reply) for reply in replies]), "utf-8")
    os.replace(draft, file)
