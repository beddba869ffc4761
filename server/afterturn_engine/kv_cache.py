"""Keys and values of one sequence, grown in chunks, and a store of finished prefixes for reuse."""

import torch
from torch import Tensor

_CHUNK = 128


class SequenceCache:
    """Per layer, keys and values [K, capacity, D] (K: key-value heads, D: head size).

    A step appends the same number of tokens to every layer and then calls `advance`. Memory follows the
    sequence's own length: no row pays for the longest one.
    """

    def __init__(self, layers: int, expected_tokens: int) -> None:
        self.length = 0
        self._expected = expected_tokens
        self._keys: list[Tensor | None] = [None] * layers
        self._values: list[Tensor | None] = [None] * layers

    def append(self, layer: int, keys_KND: Tensor, values_KND: Tensor) -> tuple[Tensor, Tensor]:
        """Store N new positions of a layer; returns views of all its keys and values [K, length + N, D]."""
        end = self.length + keys_KND.shape[1]
        keys = self._keys[layer] = self._room(self._keys[layer], keys_KND, end)
        values = self._values[layer] = self._room(self._values[layer], values_KND, end)
        keys[:, self.length : end] = keys_KND
        values[:, self.length : end] = values_KND
        return keys[:, :end], values[:, :end]

    def advance(self, tokens: int) -> None:
        """All layers have appended `tokens` positions."""
        self.length += tokens

    def fork(self, tokens: int, expected_tokens: int) -> "SequenceCache":
        """A copy of the first `tokens` positions with room of its own."""
        if tokens > self.length:
            raise ValueError(f"cannot copy {tokens} positions out of {self.length}")
        copy = SequenceCache(len(self._keys), expected_tokens)
        for layer, (keys, values) in enumerate(zip(self._keys, self._values, strict=True)):
            if keys is not None and values is not None:
                copy.append(layer, keys[:, :tokens], values[:, :tokens])
        copy.advance(tokens)
        return copy

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in (*self._keys, *self._values) if t is not None)

    def _room(self, stored: Tensor | None, like_KND: Tensor, end: int) -> Tensor:
        if stored is not None and end <= stored.shape[1]:
            return stored
        # Half as much again when a guess was too small: copies stay rare over a long reply.
        wanted = max(end, self._expected if stored is None else end + stored.shape[1] // 2)
        capacity = -(-wanted // _CHUNK) * _CHUNK
        heads, _, size = like_KND.shape
        grown = torch.empty((heads, capacity, size), dtype=like_KND.dtype, device=like_KND.device)
        if stored is not None:
            grown[:, : self.length] = stored[:, : self.length]
        return grown
