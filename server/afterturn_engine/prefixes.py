"""Keys and values of ended sequences, so that a conversation's next request computes only what is new."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterturn_engine.adapters import Adapter
from afterturn_engine.kv_cache import SequenceCache

# Below this a copy is not worth the bookkeeping.
MIN_TOKENS = 16


@dataclass(frozen=True, eq=False)
class _Kept:
    serial: int
    ids: NDArray[np.int64]
    cache: SequenceCache


class Prefixes:
    """Least recently used first out, `limit_bytes` in all; 0 keeps nothing.

    Entries belong to one loaded adapter, by its serial and not its name: what was computed with other
    weights can never match, not even after a name was used again.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept: list[_Kept] = []
        self._bytes = 0

    def take(
        self,
        adapter: Adapter | None,
        ids: Sequence[int],
        room: int,
        running: Iterable[tuple[Sequence[int], SequenceCache]] = (),
    ) -> SequenceCache | None:
        """A cache of the longest kept beginning of `ids`, or None.

        At least the last id is left to compute: its logits are needed. A beginning kept as a whole is
        handed over and leaves the store, a part of a longer one is copied, with room for `room` tokens.
        `running` are ids and caches of sequences with the same adapter that still grow: also copied from.
        """
        wanted = np.asarray(ids[:-1], dtype=np.int64)
        growing = [
            _Kept(_serial(adapter), _computed(ids_there, cache), cache) for ids_there, cache in running
        ]
        best, shared = None, MIN_TOKENS - 1
        for kept in (*self._kept, *growing):
            if kept.serial == _serial(adapter) and (length := _common(kept.ids, wanted)) > shared:
                best, shared = kept, length
        if best is None:
            return None
        if best in growing:
            return best.cache.fork(shared, room)
        self._drop(best)
        if shared == len(best.ids):
            return best.cache
        self._add(best)
        return best.cache.fork(shared, room)

    def keep(self, adapter: Adapter | None, ids: Sequence[int], cache: SequenceCache) -> None:
        """Keep an ended sequence's cache; `ids` are the tokens computed in it."""
        if cache.length < MIN_TOKENS or cache.bytes > self._limit:
            return
        new = _Kept(_serial(adapter), _computed(ids, cache), cache)
        for kept in [k for k in self._kept if k.serial == new.serial]:
            length = _common(kept.ids, new.ids)
            if length == len(new.ids):
                return  # a longer one has it already
            if length == len(kept.ids):
                self._drop(kept)
        self._add(new)
        while self._bytes > self._limit:
            self._drop(self._kept[0])

    def _add(self, kept: _Kept) -> None:
        self._kept.append(kept)
        self._bytes += kept.cache.bytes

    def _drop(self, kept: _Kept) -> None:
        self._kept = [k for k in self._kept if k is not kept]
        self._bytes -= kept.cache.bytes


def _serial(adapter: Adapter | None) -> int:
    return 0 if adapter is None else adapter.serial


def _computed(ids: Sequence[int], cache: SequenceCache) -> NDArray[np.int64]:
    """The ids whose keys and values are in the cache."""
    return np.asarray(ids[: cache.length], dtype=np.int64)


def _common(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """Length of the common beginning."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length
