"""One reply in the making: what was asked, what has been computed, what came out."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from afterturn_engine.adapters import Adapter
from afterturn_engine.detokenizer import Detokenizer
from afterturn_engine.errors import EngineError
from afterturn_engine.grammar import Allowed, Grammar
from afterturn_engine.kv_cache import SequenceCache
from afterturn_engine.stop import StopText


@dataclass(frozen=True)
class Sampling:
    """How to draw the next token and when to end.

    `logprobs` and `prompt_logprobs`: None for none, n for the token's own and the n most likely.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    eos_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None

    @property
    def ending_ids(self) -> frozenset[int]:
        """Tokens that end the reply (and cannot be drawn before min_tokens)."""
        return self.stop_token_ids if self.ignore_eos else self.stop_token_ids | self.eos_token_ids


@dataclass(frozen=True)
class Score:
    """Raw log-probability (temperature 1, before penalties) and 1-based rank of a token at a position."""

    token_id: int
    logprob: float
    rank: int


# The token that stands at a position first, then the most likely ones.
Scores = tuple[Score, ...]


@dataclass(frozen=True)
class Delta:
    """What one step added to a reply.

    `prompt_scores` come once, with the first delta. `forced` says of every token whether a grammar chose
    its text, and is empty where none was followed.
    """

    text: str
    token_ids: tuple[int, ...]
    scores: tuple[Scores, ...]
    finish_reason: str | None
    stop_reason: int | str | None
    prompt_scores: tuple[Scores | None, ...] | None = None
    forced: tuple[bool, ...] = ()


Listener = Callable[[Delta | EngineError], None]


class Sequence:
    """Owned by the scheduler's thread once submitted; `cancelled` may be set from any thread."""

    def __init__(
        self,
        prompt_ids: list[int],
        sampling: Sampling,
        adapter: Adapter | None,
        detokenizer: Detokenizer,
        listener: Listener,
        leader: "Sequence | None" = None,
    ) -> None:
        self.prompt_ids = prompt_ids
        self.sampling = sampling
        self.adapter = adapter
        self.listener = listener
        # Siblings (n > 1) wait for their leader's prefill and then share its work.
        self.leader = leader
        self.token_ids: list[int] = []
        self.cache: SequenceCache | None = None
        self.prompt_scores: list[Scores | None] = [None]
        self.cancelled = False
        self.finished = False
        self.generator = torch.Generator()
        seed = sampling.seed if sampling.seed is not None else secrets.randbits(63)
        self.generator.manual_seed(seed)
        self._detokenizer = detokenizer
        self._follower = None if sampling.grammar is None else sampling.grammar.begin()
        self._stops = StopText(sampling.stop, sampling.include_stop_str_in_output)

    @property
    def computed(self) -> int:
        """Tokens whose keys and values are in the cache."""
        return 0 if self.cache is None else self.cache.length

    @property
    def pending_prompt(self) -> int:
        """Prompt tokens still to compute before the first reply token."""
        return max(len(self.prompt_ids) - self.computed, 0)

    def next_input(self, budget: int) -> list[int]:
        """The ids to feed next: up to `budget` of the prompt, or the token drawn last."""
        if self.pending_prompt:
            return self.prompt_ids[self.computed : self.computed + budget]
        return self.token_ids[-1:]

    def allowed(self) -> Allowed | None:
        """What a grammar allows next; None leaves everything. Raises GrammarFailed."""
        return None if self._follower is None else self._follower.allowed()

    def add_token(self, token_id: int, scores: Scores | None, allowed: Allowed | None = None) -> Delta:
        """Append a drawn token; the delta says what may be sent and whether the reply ended.

        `allowed` is what it was drawn from. Raises GrammarFailed.
        """
        self.token_ids.append(token_id)
        forced = self._follow(token_id, allowed)
        finish, reason = self._ending(token_id)
        # The end token has no text of its own unless asked for, as in vLLM.
        silent = finish == "stop" and not self.sampling.include_stop_str_in_output
        piece = "" if silent else self._detokenizer.add(token_id)
        if finish is None and self._follower is not None and self._follower.ended and not self._can_end:
            finish = "stop"
        release = self._stops.feed(piece, armed=len(self.token_ids) > self.sampling.min_tokens)
        text = release.text
        if release.matched is not None:
            finish, reason = "stop", release.matched
        elif finish is not None:
            text += self._stops.flush()
        self.finished = finish is not None
        first = len(self.token_ids) == 1 and self.sampling.prompt_logprobs is not None
        return Delta(
            text=text,
            token_ids=(token_id,),
            scores=() if scores is None else (scores,),
            finish_reason=finish,
            stop_reason=reason,
            prompt_scores=tuple(self.prompt_scores) if first else None,
            forced=forced,
        )

    @property
    def _can_end(self) -> bool:
        """Whether an end token ends this reply: behind the end of a grammar nothing else can."""
        return bool(self.sampling.eos_token_ids) and not self.sampling.ignore_eos

    def _follow(self, token_id: int, allowed: Allowed | None) -> tuple[bool, ...]:
        if self._follower is None or allowed is None:
            return ()
        forced = self._follower.forces(allowed, token_id)
        self._follower.take(token_id)
        return (forced,)

    def _ending(self, token_id: int) -> tuple[str | None, int | str | None]:
        sampling = self.sampling
        if not sampling.ignore_eos and token_id in sampling.eos_token_ids:
            return "stop", None
        if token_id in sampling.stop_token_ids:
            return "stop", token_id
        if len(self.token_ids) >= sampling.max_tokens:
            return "length", None
        return None, None
