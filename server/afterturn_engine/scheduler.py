"""The step loop: which sequences run, how much of each prompt a step takes, what comes out."""

import logging
import threading
from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass

import torch
from torch import Tensor

from afterturn_engine.errors import GenerationFailed, QueueFull
from afterturn_engine.grammar import GrammarFailed
from afterturn_engine.kv_cache import SequenceCache
from afterturn_engine.model import Model, Run
from afterturn_engine.prefixes import Prefixes
from afterturn_engine.sampler import draw, score
from afterturn_engine.sequence import Delta, Sequence

log = logging.getLogger(__name__)

# Prompt tokens a step may take. Beside running replies little, so that their next tokens are not held up by
# somebody's long prompt; alone as much as keeps cancellation prompt.
PREFILL_BESIDE_REPLIES = 48
PREFILL_ALONE = 256
# A reply's cache starts with room for this many tokens beyond the prompt and grows from there.
_EXPECTED_REPLY = 256


@dataclass(frozen=True)
class Limits:
    """At most `sequences` run at once; at most `queue` wait, more are refused.

    `prefix_bytes` of keys and values are kept of ended sequences.
    """

    sequences: int = 8
    queue: int = 256
    prefix_bytes: int = 1 << 30


class Scheduler:
    """Runs the model in a thread of its own. Sequences come and go between steps, never within one."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model = model
        self.limits = limits
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._prefixes = Prefixes(limits.prefix_bytes)
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="engine-steps", daemon=True)
        self.sampled_tokens = 0
        self.prompt_tokens = 0
        self.reused_tokens = 0
        self.steps = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the loop after the current step; sequences still there get GenerationFailed."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        for sequence in (*self._running, *self._waiting):
            sequence.listener(GenerationFailed())

    def submit(self, sequences: Items[Sequence]) -> None:
        """Queue all of them or, raising QueueFull, none."""
        with self._changed:
            if self._closing or len(self._waiting) + len(sequences) > self.limits.queue + self._free():
                raise QueueFull
            self._waiting.extend(sequences)
            self._changed.notify()

    def cancel(self, sequences: Iterable[Sequence]) -> None:
        """Stop before the next step; nothing more is heard of them. Harmless for finished ones."""
        with self._changed:
            for sequence in sequences:
                sequence.cancelled = True

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def load(self) -> tuple[int, int]:
        """(running, waiting)"""
        return len(self._running), len(self._waiting)

    def _free(self) -> int:
        return max(self.limits.sequences - len(self._running), 0)

    def _loop(self) -> None:
        while self._wait_for_work():
            try:
                self._admit()
                self.step()
            except Exception:
                # Whatever the forward pass raised, those who wait for it must hear of it, and others go on.
                log.exception("a step failed, ending its %d sequences", len(self._running))
                for sequence in self._running:
                    sequence.listener(GenerationFailed())
                self._running.clear()

    def _wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._running or self._waiting)
            self._drop_cancelled()
            return not self._closing

    def _drop_cancelled(self) -> None:
        if any(s.cancelled for s in self._waiting):
            self._waiting = deque(s for s in self._waiting if not s.cancelled)
        self._retire([s for s in self._running if s.cancelled])

    def _admit(self) -> None:
        """First come, first served; siblings wait for the prompt that their leader computes for them."""
        while (sequence := self._next_waiting()) is not None:
            # A failure from here on must find it among the running.
            self._running.append(sequence)
            self._place(sequence)

    def _next_waiting(self) -> Sequence | None:
        with self._changed:
            if not self._waiting or not self._free():
                return None
            leader = self._waiting[0].leader
            if leader is not None and leader.pending_prompt and not leader.cancelled:
                return None
            return self._waiting.popleft()

    def _place(self, sequence: Sequence) -> None:
        size = len(sequence.prompt_ids) + min(sequence.sampling.max_tokens, _EXPECTED_REPLY)
        leader = sequence.leader
        shared = leader.cache if leader is not None and not leader.pending_prompt else None
        if shared is not None and sequence.sampling.prompt_logprobs is None:
            # The last prompt token is computed again: its logits are where the sibling's own draw starts.
            sequence.cache = shared.fork(len(sequence.prompt_ids) - 1, size)
        elif sequence.sampling.prompt_logprobs is None:
            running = [
                ([*other.prompt_ids, *other.token_ids], other.cache)
                for other in self._running
                if other.adapter is sequence.adapter and other.cache is not None
            ]
            sequence.cache = self._prefixes.take(sequence.adapter, sequence.prompt_ids, size, running)
            self.reused_tokens += sequence.computed
        if sequence.cache is None:
            sequence.cache = SequenceCache(self._model.layers, size)

    @torch.inference_mode()
    def step(self) -> None:
        """One forward pass: the next token of every reply, and a share of every open prompt."""
        shares = prefill_shares([s.pending_prompt for s in self._running])
        taken = [
            (s, share)
            for s, share in zip(self._running, shares, strict=True)
            if share or not s.pending_prompt
        ]
        # Rows of one adapter side by side: one pair of products each.
        taken.sort(key=lambda pair: 0 if pair[0].adapter is None else pair[0].adapter.serial)
        runs = [_run(sequence, share) for sequence, share in taken]
        if not runs:
            return
        logits_WV = self._model.forward(runs)
        self.steps += 1
        self.prompt_tokens += sum(share for _, share in taken)
        start = 0
        for (sequence, _), run in zip(taken, runs, strict=True):
            end = start + len(run.wanted)
            if not sequence.cancelled:
                self._advance(sequence, run, logits_WV[start:end])
            start = end
        self._retire([s for s in self._running if s.finished])

    def _retire(self, ended: Items[Sequence]) -> None:
        for sequence in ended:
            self._running.remove(sequence)
            if sequence.cache is not None:
                ids = [*sequence.prompt_ids, *sequence.token_ids]
                self._prefixes.keep(sequence.adapter, ids, sequence.cache)

    def _advance(self, sequence: Sequence, run: Run, logits_WV: Tensor) -> None:
        top = sequence.sampling.prompt_logprobs
        if top is not None and not sequence.token_ids:
            first = sequence.computed - len(run.ids)
            following = sequence.prompt_ids[first + 1 : first + 1 + len(run.ids)]
            sequence.prompt_scores += [
                score(logits_V, token_id, top)
                for logits_V, token_id in zip(logits_WV, following, strict=False)
            ]
        if sequence.pending_prompt:
            return
        try:
            delta = self._drawn(sequence, logits_WV[-1])
        except GrammarFailed:
            # Its own grammar's failure: the replies beside it go on.
            log.exception("a grammar failed, ending its sequence")
            sequence.finished = True
            sequence.listener(GenerationFailed())
            return
        self.sampled_tokens += 1
        sequence.listener(delta)

    def _drawn(self, sequence: Sequence, logits_V: Tensor) -> Delta:
        sampling = sequence.sampling
        allowed = sequence.allowed()
        token_id = draw(
            logits_V,
            sampling,
            sequence.prompt_ids,
            sequence.token_ids,
            sequence.generator,
            None if allowed is None else allowed.mask,
        )
        scores = None if sampling.logprobs is None else score(logits_V, token_id, sampling.logprobs)
        return sequence.add_token(token_id, scores, allowed)


def prefill_shares(pending: Items[int]) -> list[int]:
    """How many prompt tokens each sequence may compute in a step, given how many each has left.

    The budget is shared evenly and what short prompts leave goes to longer ones, so a short prompt never
    waits for a long one.
    """
    replying = any(left == 0 for left in pending)
    budget = PREFILL_BESIDE_REPLIES if replying else PREFILL_ALONE
    shares = [0] * len(pending)
    by_length = sorted((i for i, left in enumerate(pending) if left), key=lambda i: pending[i])
    for place, i in enumerate(by_length):
        shares[i] = min(pending[i], max(budget // (len(by_length) - place), 1))
        budget -= shares[i]
    return shares


def _run(sequence: Sequence, share: int) -> Run:
    if sequence.cache is None:
        raise ValueError("a running sequence has no cache")
    ids = sequence.next_input(share)
    scored = sequence.sampling.prompt_logprobs is not None and not sequence.token_ids
    last = len(ids) >= sequence.pending_prompt
    wanted = range(len(ids)) if scored else range(len(ids) - 1, len(ids)) if last else range(0)
    return Run(ids, sequence.cache, sequence.adapter, wanted)
