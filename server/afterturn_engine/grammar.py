"""Grammars that a reply must follow, compiled over the model's own tokens (llguidance).

A follower says before every token which ones may come next. The mask is applied to what is drawn from, never
to the log-probabilities that are reported: those stay the model's own.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from afterturn_engine.errors import InvalidRequest

# Agents send the same tools with every request of a session.
_KEPT = 64


class GrammarFailed(Exception):
    """The grammar became too complex on the way, or was given a token that it does not allow."""


@dataclass(frozen=True)
class Allowed:
    """The tokens that may come next.

    `mask`: True [V] where a token is allowed. `only`: there is no choice. `bytes_ahead`: text that must come
    next, whatever tokens it is made of.
    """

    mask: Tensor
    only: bool
    bytes_ahead: bytes


class Follower:
    """Where one reply stands in its grammar."""

    def __init__(self, matcher: LLMatcher, tokenizer: LLTokenizer, vocabulary_size: int) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._size = vocabulary_size

    def allowed(self) -> Allowed:
        """Raises GrammarFailed when the grammar cannot say."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        mask_V = np.unpackbits(bits, bitorder="little")[: self._size].astype(bool)
        ahead = b"" if self.ended else self._matcher.compute_ff_bytes()
        self._check()
        return Allowed(torch.from_numpy(mask_V), int(mask_V.sum()) == 1, ahead)

    def take(self, token_id: int) -> None:
        """Go on behind a token; the end token leaves everything as it is. Raises GrammarFailed."""
        if not self.ended and token_id not in self._tokenizer.eos_tokens:
            self._matcher.consume_token(token_id)
            self._check()

    def forces(self, allowed: Allowed, token_id: int) -> bool:
        """Whether the grammar, and not the model, chose the text of this token."""
        text = self._tokenizer.decode_bytes([token_id])
        return allowed.only or (bool(text) and allowed.bytes_ahead.startswith(text))

    @property
    def ended(self) -> bool:
        """Nothing but the end may follow."""
        return self._matcher.is_stopped()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarFailed(self._matcher.get_error())


class Grammar:
    """A compiled grammar; every reply follows it on its own."""

    def __init__(self, matcher: LLMatcher, tokenizer: LLTokenizer, vocabulary_size: int) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._size = vocabulary_size

    def begin(self) -> Follower:
        return Follower(self._matcher.deep_copy(), self._tokenizer, self._size)


class Grammars:
    """Compiles grammars for one tokenizer and keeps the ones used last. Safe to call from any thread."""

    def __init__(
        self, tokenizer: TokenizersBackend, vocabulary_size: int, eos_token_ids: frozenset[int]
    ) -> None:
        self._source = tokenizer
        self._size = vocabulary_size
        self._eos = sorted(eos_token_ids)
        self._tokenizer: LLTokenizer | None = None
        self._kept: OrderedDict[str, Grammar] = OrderedDict()
        self._lock = Lock()

    def compile(self, source: str, param: str) -> Grammar:
        """Compile a grammar in llguidance's form of Lark. Raises InvalidRequest naming `param`.

        Takes up to a second for the first and for very large ones.
        """
        with self._lock:
            known = self._kept.get(source)
            if known is None:
                known = self._kept[source] = self._compiled(source, param)
            self._kept.move_to_end(source)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return known

    def _compiled(self, source: str, param: str) -> Grammar:
        if self._tokenizer is None:
            self._tokenizer = self._prepared(param)
        matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(source), log_level=0)
        if matcher.is_error():
            reason = matcher.get_error().strip().splitlines()[0]
            raise InvalidRequest(f"the engine cannot follow this grammar: {reason}", param=param)
        return Grammar(matcher, self._tokenizer, self._size)

    def _prepared(self, param: str) -> LLTokenizer:
        size = max(self._size, len(self._source))
        try:
            return LLTokenizer(self._source.backend_tokenizer.to_str(), n_vocab=size, eos_token=self._eos)
        except ValueError as error:
            raise InvalidRequest(
                f"this model's tokenizer cannot be held to a grammar: {error}", param=param
            ) from error
