"""What a request may ask for: checks, defaults, and room in the context window."""

import math

from afterturn_engine.errors import InvalidRequest, Malformed
from afterturn_engine.grammar import Grammar
from afterturn_engine.model import Model
from afterturn_engine.requests import SamplingRequest
from afterturn_engine.sequence import Sampling

MAX_LOGPROBS = 20
MAX_CHOICES = 64


def room_for_reply(prompt_tokens: int, asked: int | None, context: int, asked_as: str = "max_tokens") -> int:
    """How many tokens the reply may have: what was asked for, at most what the context leaves.

    Raises InvalidRequest when the prompt leaves no room, or more is asked for than any context could hold.
    """
    if asked is not None and asked > context:
        raise InvalidRequest(
            f"{asked_as}={asked} cannot be greater than max_model_len={context}. "
            "Please request fewer output tokens.",
            param=asked_as,
        )
    if asked is not None and asked < 1:
        raise InvalidRequest(f"max_tokens must be at least 1, got {asked}.", param="max_tokens")
    if prompt_tokens >= context:
        raise InvalidRequest(
            f"This model's maximum context length is {context} tokens. However, your prompt contains "
            f"at least {prompt_tokens} input tokens, which leaves no room for a reply. "
            "Please reduce the length of the input prompt.",
            param="input_tokens",
        )
    left = context - prompt_tokens
    return left if asked is None else min(asked, left)


def choices(request: SamplingRequest) -> int:
    """The number of replies to a prompt."""
    n = 1 if request.n is None else request.n
    if n < 1:
        raise InvalidRequest(f"n must be at least 1, got {n}.")
    if n > MAX_CHOICES:
        raise InvalidRequest(f"n must be at most {MAX_CHOICES}, got {n}.", param="n")
    if n > 1 and request.temperature == 0:
        raise InvalidRequest(f"n must be 1 when using greedy sampling, got {n}.")
    return n


def sampling(
    request: SamplingRequest,
    model: Model,
    max_tokens: int,
    logprobs: int | None,
    prompt_logprobs: int | None,
    grammar: Grammar | None,
) -> Sampling:
    """The request's sampling over the model's own defaults. Raises InvalidRequest naming the field."""
    if request.stream_options is not None and not request.stream:
        raise Malformed("Stream options can only be defined when `stream=True`.", param="stream_options")
    if request.stream and request.prompt_logprobs:
        raise Malformed("`prompt_logprobs` are not available when `stream=True`.", param="prompt_logprobs")
    stops = [request.stop] if isinstance(request.stop, str) else list(request.stop or ())
    if not all(stops):
        raise InvalidRequest("stop cannot contain an empty string.", param="stop")
    made = Sampling(
        max_tokens=max_tokens,
        temperature=_or(request.temperature, model.default_sampling.get("temperature", 1.0)),
        top_p=_or(request.top_p, model.default_sampling.get("top_p", 1.0)),
        top_k=int(_or(request.top_k, model.default_sampling.get("top_k", 0))),
        min_p=_or(request.min_p, model.default_sampling.get("min_p", 0.0)),
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        repetition_penalty=_or(
            request.repetition_penalty, model.default_sampling.get("repetition_penalty", 1.0)
        ),
        logit_bias=request.logit_bias or {},
        seed=request.seed,
        min_tokens=request.min_tokens or 0,
        stop=tuple(stops),
        stop_token_ids=frozenset(request.stop_token_ids or ()),
        eos_token_ids=model.eos_token_ids,
        ignore_eos=bool(request.ignore_eos),
        include_stop_str_in_output=bool(request.include_stop_str_in_output),
        skip_special_tokens=request.skip_special_tokens is not False,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        grammar=grammar,
    )
    _check(made, model.vocabulary_size)
    return made


def _check(made: Sampling, vocabulary_size: int) -> None:
    if not math.isfinite(made.temperature):
        raise InvalidRequest(f"temperature must be a finite number, got {made.temperature}.", "temperature")
    if made.temperature < 0:
        raise InvalidRequest(f"temperature must be non-negative, got {made.temperature}.", "temperature")
    if made.temperature > 2:
        raise InvalidRequest(f"temperature must be in [0, 2], got {made.temperature}.", "temperature")
    if not 0 < made.top_p <= 1:
        raise InvalidRequest(f"top_p must be in (0, 1], got {made.top_p}.", "top_p")
    if made.top_k < -1:
        raise InvalidRequest(f"top_k must be 0 (disable), or at least 1, got {made.top_k}.", "top_k")
    if not 0 <= made.min_p <= 1:
        raise InvalidRequest(f"min_p must be in [0, 1], got {made.min_p}.", "min_p")
    for name in ("presence_penalty", "frequency_penalty"):
        value: float = getattr(made, name)
        if not -2 <= value <= 2:
            raise InvalidRequest(f"{name} must be in [-2, 2], got {value}.", name)
    if not (math.isfinite(made.repetition_penalty) and made.repetition_penalty > 0):
        raise InvalidRequest(
            f"repetition_penalty must be greater than zero, got {made.repetition_penalty}.",
            "repetition_penalty",
        )
    if not 0 <= made.min_tokens <= made.max_tokens:
        raise InvalidRequest(
            f"min_tokens must be between 0 and max_tokens={made.max_tokens}, got {made.min_tokens}.",
            "min_tokens",
        )
    for name in ("logprobs", "prompt_logprobs"):
        asked: int | None = getattr(made, name)
        if asked is not None and not 0 <= asked <= MAX_LOGPROBS:
            raise InvalidRequest(
                f"Requested {name} of {asked}, which is outside the allowed 0 to {MAX_LOGPROBS}.", name
            )
    if not all(map(math.isfinite, made.logit_bias.values())):
        raise InvalidRequest("logit_bias must hold finite numbers", "logit_bias")
    ids = {*made.logit_bias, *made.stop_token_ids}
    outside = [token_id for token_id in ids if not 0 <= token_id < vocabulary_size]
    if outside:
        raise InvalidRequest(f"Token id {outside[0]} is out of vocabulary")


def _or(asked: float | None, default: float) -> float:
    return default if asked is None else asked
