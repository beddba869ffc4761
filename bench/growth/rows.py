"""The rows that an install would have written for a conversation; those of the gateway are made here."""

import hashlib
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

import numpy as np
import orjson

from afterturn_core.deposit import node_digest
from afterturn_core.history import BLOCK, KEYFRAME_EVERY, pack_ids, pack_logprobs
from afterturn_core.ids import id_at
from afterturn_core.lifecycle import is_held_out
from afterturn_server.linking import read_history, reply_entry
from bench.growth.conversations import TURNS, instruction_ids, instructions, tools
from bench.growth.conversations import Conversation as Talk
from bench.growth.learning import Learning
from bench.growth.look_alikes import look_alike
from bench.growth.tables import MODEL_HASH, Owner, Rows

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class RowMaker:
    """Makes rows conversation by conversation; `gap` is the time between two beginnings."""

    def __init__(self, owners: Sequence[Owner], gap: timedelta) -> None:
        self._owners = owners
        self._gap = gap
        self._shared: set[str] = set()
        self._learning = [Learning(owner) for owner in owners]
        self._random = random.Random(7)

    @property
    def waiting(self) -> list[str]:
        """Turns that are in a round which never filled: they still wait for it."""
        return [turn_id for learning in self._learning for turn_id, _ in learning.waiting]

    @property
    def newest(self) -> dict[str, str]:
        """The newest adapter of each agent that has one, by id."""
        pairs = zip(self._owners, self._learning, strict=True)
        return {owner.agent_id: one.adapter_id for owner, one in pairs if one.adapter_id is not None}

    def look_alike(self, rows: Rows, number: int) -> Rows:
        """The same conversation once more under other ids and digests. What all conversations of an agent
        share is shared with these too. `number` is from 1 to 255."""
        return look_alike(rows, number, self._shared)

    def rows(self, talk: Talk) -> Rows:
        """Every row of a conversation, by table; rows that others share come with the first of them."""
        rows: Rows = defaultdict(list)
        owner = self._owners[talk.agent]
        began = BEGAN + talk.number * self._gap
        session_id = id_at("session", began)
        rows["sessions"].append(
            {
                "id": session_id,
                "agent_id": owner.agent_id,
                "key_id": owner.key_id,
                "external_id": None,
                "created_at": began,
                "last_seen_at": began + timedelta(seconds=30 * TURNS),
                "ended_at": None,
                "settled": True,
            }
        )
        for turn in self._turns(rows, talk, owner, session_id, began):
            rows["turns"].append(turn)
        return rows

    def _turns(
        self, rows: Rows, talk: Talk, owner: Owner, session_id: str, began: datetime
    ) -> Iterator[dict[str, Any]]:
        tools_digest = self._share(rows, orjson.dumps(tools(talk.agent)))
        previous, depth = self._add_node(rows, None, orjson.dumps(instructions(talk.agent)), 0)
        learning = self._learning[talk.agent]
        keys = _Keys()
        prompt = list(instruction_ids(talk.agent))
        parent_id: str | None = None
        for number, step in enumerate(talk.steps):
            at = began + timedelta(seconds=30 * number)
            turn_id = id_at("turn", at)
            for message in step.asked:
                previous, depth = self._add_node(rows, previous, orjson.dumps(message), depth)
                keys.add(message)
            new_ids = step.asked_ids
            prompt += new_ids
            keyframe = number % KEYFRAME_EVERY == 0
            shared = len(prompt) - len(prompt) % BLOCK if keyframe else len(prompt) - len(new_ids)
            reply = orjson.dumps(step.reply)
            reply_digest = hashlib.sha256(reply).hexdigest()
            rows["contents"].append({"digest": reply_digest, "body": zlib.compress(reply)})
            prompt_key = keys.key
            keys.add(step.reply)
            row: dict[str, Any] = {
                "id": turn_id,
                "agent_id": owner.agent_id,
                "key_id": owner.key_id,
                "session_id": session_id,
                "parent_id": parent_id,
                "attempt_of": None,
                "response_id": id_at("chatcmpl", at),
                "choice_index": 0,
                "kind": "main",
                "kind_reason": "default",
                "protocol": "chat",
                "adapter": learning.adapter,
                "adapter_version": learning.version or None,
                "model_hash": MODEL_HASH,
                "client": "OpenAI/Python 2.8.0",
                "created_at": at,
                "completed_at": at + timedelta(seconds=3),
                "finish_reason": "tool_calls" if "tool_calls" in step.reply else "stop",
                "link_key": keys.key,
                "prompt_key": prompt_key,
                "reply_key": reply_entry(step.reply).reply_key,
                "history_digest": previous,
                "tools_digest": tools_digest,
                "reply_digest": reply_digest,
                "sampling": {"temperature": 0.7, "max_tokens": 1024},
                "prompt_base_id": None if keyframe else parent_id,
                "prompt_head": self._blocks(rows, prompt, len(instruction_ids(talk.agent)))
                if keyframe
                else None,
                "prompt_shared": shared,
                "prompt_depth": number % KEYFRAME_EVERY,
                "prompt_tail": pack_ids(prompt[shared:]),
                "token_ids": _packed(step.reply_ids),
                "logprobs": _logprobs(len(step.reply_ids), number),
                "prompt_tokens": len(prompt),
                "completion_tokens": len(step.reply_ids),
                "held_out": is_held_out(turn_id),
                "times_rejected": 0,
                "claimable_at": None,
            }
            # What was not sent back unchanged is stored a second time.
            known = {reply_digest} - self._shared
            self._shared |= known
            previous, depth = self._add_node(rows, previous, orjson.dumps(step.returned), depth)
            self._shared -= known
            following = talk.steps[number + 1].asked[0] if number + 1 < TURNS else None
            learning.go_on(rows, row, following, at, self._random.random())
            prompt += step.reply_ids
            parent_id = turn_id
            yield row

    def _add_node(self, rows: Rows, previous: str | None, body: bytes, depth: int) -> tuple[str, int]:
        content = hashlib.sha256(body).hexdigest()
        digest = node_digest(previous, content)
        if content not in self._shared:
            rows["contents"].append({"digest": content, "body": zlib.compress(body)})
        if digest not in self._shared:
            rows["history_nodes"].append(
                {"digest": digest, "previous": previous, "content_digest": content, "depth": depth}
            )
        if previous is None:  # what an agent's conversations have in common
            self._shared |= {content, digest}
        return digest, depth + 1

    def _share(self, rows: Rows, body: bytes) -> str:
        digest = hashlib.sha256(body).hexdigest()
        if digest not in self._shared:
            self._shared.add(digest)
            rows["contents"].append({"digest": digest, "body": zlib.compress(body)})
        return digest

    def _blocks(self, rows: Rows, prompt: Sequence[int], instructed: int) -> str | None:
        ids = np.asarray(prompt, dtype="<i4")
        previous: str | None = None
        for depth, start in enumerate(range(0, len(ids) - len(ids) % BLOCK, BLOCK)):
            body = ids[start : start + BLOCK].tobytes()
            content = hashlib.sha256(body).hexdigest()
            digest = node_digest(previous, content)
            if digest not in self._shared:
                if start + BLOCK <= instructed:
                    self._shared.add(digest)
                rows["contents"].append({"digest": content, "body": zlib.compress(body)})
                rows["history_nodes"].append(
                    {"digest": digest, "previous": previous, "content_digest": content, "depth": depth}
                )
            previous = digest
        return previous


class _Keys:
    """The chain key of a history that grows, as `read_history` would give it for the whole."""

    def __init__(self) -> None:
        self.key = read_history([]).key

    def add(self, message: dict[str, Any]) -> None:
        for entry in read_history([message]).entries:
            self.key = entry.digest_after(self.key)


@lru_cache(8192)
def _packed(ids: tuple[int, ...]) -> bytes:
    return pack_ids(ids)


@cache
def _logprobs(length: int, variant: int) -> bytes:
    choose = random.Random(f"{length}/{variant}")
    return pack_logprobs([-choose.expovariate(2.0) for _ in range(length)])
