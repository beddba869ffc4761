"""Conversations stored once: messages by content, histories as chains, prompt ids as differences.

Agents resend their whole history with every call, so a turn stores one pointer to a chain of
messages that its neighbours share, and its prompt's token ids as what is new against its parent's.
A prompt without such a parent stores its whole blocks of ids as a chain too: every conversation of an
agent begins with the same thousands of them.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from sqlalchemy import Integer, Select, bindparam, select
from sqlmodel import Session

from .deposit import Deposit, Json
from .models import Content, HistoryNode, Turn

Ids = npt.NDArray[np.int32]
KEYFRAME_EVERY = 16  # reading a prompt follows at most this many differences
_WHOLE = 2**31 - 1  # messages: no history is that long
BLOCK = 1024  # token ids of a prompt that are stored and shared together
# SQLModel makes `__table__`, which its types do not say.
_NODES = HistoryNode.__table__  # type: ignore[attr-defined]
_CONTENTS = Content.__table__  # type: ignore[attr-defined]


def store_content(session: Session, value: object) -> str:
    """Store one JSON value by its content; returns its digest."""
    deposit = Deposit(session)
    digest = deposit.content(value)
    deposit.write()
    return digest


def load_content(session: Session, digest: str) -> Any:
    """The JSON value of a digest."""
    content = session.get_one(Content, digest)
    return unpack_content(content.body)


def store_history(session: Session, messages: Iterable[Json]) -> str | None:
    """Store a list of messages as a chain; only nodes that are new are written.

    Returns the digest of the last node, `None` for no messages.
    """
    deposit = Deposit(session)
    digest = deposit.history(messages)
    deposit.write()
    return digest


def load_history(session: Session, digest: str | None, *, last: int | None = None) -> list[Json]:
    """The messages of a chain, oldest first: all of them, or its `last` ones."""
    return [orjson.loads(body) for body in _load_chain(session, digest, last)]


def unpack_content(body: bytes) -> Any:
    """The JSON value of a stored content's body."""
    return orjson.loads(zlib.decompress(body))


def _load_chain(session: Session, digest: str | None, last: int | None = None) -> list[bytes]:
    if digest is None:
        return []
    count = _WHOLE if last is None else last
    rows = session.connection().execute(_CHAIN, {"last": digest, "count": count}).scalars()
    return [zlib.decompress(body) for body in rows]


def _chain() -> Select[bytes]:
    nodes = _NODES.alias("first")
    chain = (
        select(
            nodes.c.previous,
            nodes.c.content_digest,
            nodes.c.depth,
            bindparam("count", type_=Integer).label("count"),
        )
        .where(nodes.c.digest == bindparam("last"))
        .cte("chain", recursive=True)
    )
    chain = chain.union_all(
        select(_NODES.c.previous, _NODES.c.content_digest, _NODES.c.depth, chain.c.count - 1)
        .join(chain, _NODES.c.digest == chain.c.previous)
        .where(chain.c.count > 1)
    )
    return (
        select(_CONTENTS.c.body)
        .join(chain, _CONTENTS.c.digest == chain.c.content_digest)
        .order_by(chain.c.depth)
    )


_CHAIN = _chain()


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as compressed little-endian int32."""
    return zlib.compress(np.asarray(ids, dtype="<i4").tobytes())


def unpack_ids(packed: bytes) -> list[int]:
    """What `pack_ids` packed."""
    ids: list[int] = _ids(packed).tolist()
    return ids


def pack_logprobs(values: Sequence[float]) -> bytes:
    """Natural-log probabilities as compressed little-endian float32."""
    return zlib.compress(np.asarray(values, dtype="<f4").tobytes())


def unpack_logprobs(packed: bytes) -> list[float]:
    """What `pack_logprobs` packed."""
    return [float(value) for value in np.frombuffer(zlib.decompress(packed), dtype="<f4")]


@dataclass(frozen=True)
class PromptDifference:
    """A prompt as what is new against a base turn's prompt and reply, or against the blocks that it begins
    with (`prompt_head`, the last of a chain); the turn's columns of these names.

    The first `prompt_shared` ids are the base's or the chain's, the tail follows.
    """

    prompt_base_id: str | None
    prompt_head: str | None
    prompt_shared: int
    prompt_depth: int
    prompt_tail: bytes
    prompt_tokens: int


def prompt_difference(
    session: Session, deposit: Deposit, prompt_ids: Sequence[int], base: Turn | None
) -> PromptDifference:
    """`prompt_ids` as a difference to what `base` (the parent) had in view; blocks go to the deposit."""
    fresh = np.asarray(prompt_ids, dtype="<i4")
    shared = 0
    if base is not None and base.prompt_depth + 1 < KEYFRAME_EVERY:
        shared = _equal_length(np.concatenate((_prompt_array(session, base), _ids(base.token_ids))), fresh)
    head = None
    depth = 0
    if base is None or shared == 0:
        base = None
        shared = len(fresh) - len(fresh) % BLOCK
        blocks = [fresh[start : start + BLOCK].tobytes() for start in range(0, shared, BLOCK)]
        head = deposit.chain(blocks)
    else:
        depth = base.prompt_depth + 1
    return PromptDifference(
        prompt_base_id=None if base is None else base.id,
        prompt_head=head,
        prompt_shared=shared,
        prompt_depth=depth,
        prompt_tail=pack_ids(prompt_ids[shared:]),
        prompt_tokens=len(prompt_ids),
    )


def store_prompt(session: Session, turn: Turn, prompt_ids: Sequence[int], base: Turn | None) -> None:
    """Put `prompt_ids` on the turn as a difference to what `base` (its parent) had in view."""
    deposit = Deposit(session)
    difference = prompt_difference(session, deposit, prompt_ids, base)
    deposit.write()
    for column in fields(difference):
        setattr(turn, column.name, getattr(difference, column.name))


def load_prompt(session: Session, turn: Turn) -> list[int]:
    """The exact prompt ids of a turn."""
    ids: list[int] = _prompt_array(session, turn).tolist()
    return ids


def _prompt_array(session: Session, turn: Turn) -> Ids:
    if turn.prompt_base_id is None:
        blocks = [np.frombuffer(body, dtype="<i4") for body in _load_chain(session, turn.prompt_head)]
        return np.concatenate((*blocks, _ids(turn.prompt_tail)))
    base = session.get_one(Turn, turn.prompt_base_id)
    seen = np.concatenate((_prompt_array(session, base), _ids(base.token_ids)))
    return np.concatenate((seen[: turn.prompt_shared], _ids(turn.prompt_tail)))


def _ids(packed: bytes) -> Ids:
    return np.frombuffer(zlib.decompress(packed), dtype="<i4")


def _equal_length(seen: Ids, fresh: Ids) -> int:
    """How many ids two prompts begin with in common."""
    length = min(len(seen), len(fresh))
    differing = np.nonzero(seen[:length] != fresh[:length])[0]
    return int(differing[0]) if len(differing) else length
