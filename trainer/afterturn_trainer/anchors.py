"""Neutral prompts, fixed in `anchors.jsonl`, with the base model's own replies: what updates leave alone."""

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from afterturn_core.engine_client import EngineClient
from afterturn_trainer.greedy import Asked, greedy_replies
from afterturn_trainer.streams import Anchor

REPLY_TOKENS = 40
ANCHORS = 16  # the first of the file; each costs a pass a step it is drawn in, and memory for its states


def load_anchors(
    client: EngineClient,
    model_hash: str,
    memory: Path,
    concurrency: int,
    on_progress: Callable[[float], None],
) -> tuple[Anchor, ...]:
    """The anchors with greedy replies of the base model, asked of the engine once for each base model."""
    text = resources.files("afterturn_trainer").joinpath("anchors.jsonl").read_text(encoding="utf-8")
    prompts = tuple(str(json.loads(line)["prompt"]) for line in text.splitlines()[:ANCHORS])
    asked = Asked(client.base_model().id, "base", model_hash, prompts, REPLY_TOKENS)
    replies = greedy_replies(client, asked, memory, concurrency, on_progress)
    return tuple(
        Anchor(f"anchor-{number}", reply.prompt_ids, reply.reply_ids)
        for number, reply in enumerate(replies)
        if reply.reply_ids
    )
