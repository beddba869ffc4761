"""Drawing a token from logits, and the raw log-probabilities that are reported. Pure functions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from afterturn_engine.sequence import Sampling, Score, Scores

# As in vLLM: below this temperature the most likely token is taken.
GREEDY_BELOW = 1e-5
# Nearly always holds the whole nucleus; when it does not, the vocabulary is sorted.
_NUCLEUS_GUESS = 1024


def score(logits_V: Tensor, token_id: int, top: int) -> Scores:
    """The token's raw log-probability and rank, then those of the `top` most likely tokens.

    Raw means temperature 1, before penalties and filters (vLLM's `raw_logprobs`).
    """
    normaliser = logits_V.logsumexp(-1)
    own = logits_V[token_id]
    rank = int((logits_V >= own).sum())
    scores = [Score(token_id, float(own - normaliser), rank)]
    if top:
        values, ids = logits_V.topk(min(top, logits_V.shape[0]))
        logprobs = (values - normaliser).tolist()
        for place, (other, logprob) in enumerate(zip(ids.tolist(), logprobs, strict=True), start=1):
            if other != token_id:
                scores.append(Score(other, logprob, place))
    return tuple(scores)


def draw(
    logits_V: Tensor,
    sampling: Sampling,
    prompt_ids: Sequence[int],
    reply_ids: Sequence[int],
    generator: torch.Generator,
    allowed_V: Tensor | None = None,
) -> int:
    """The next token: penalties, temperature, min_p, top_k, top_p, in vLLM's order, then one draw.

    `allowed_V`: True for the tokens that a grammar allows, at least one. Uses exactly one number of
    `generator` unless greedy, so a seed reproduces a reply whatever else runs.
    """
    adjusted_V = _adjust(logits_V, sampling, prompt_ids, reply_ids, allowed_V)
    if sampling.temperature < GREEDY_BELOW:
        return int(adjusted_V.argmax())
    adjusted_V = adjusted_V / sampling.temperature
    if sampling.min_p > 0:
        floor = adjusted_V.max() + torch.tensor(sampling.min_p).log()
        adjusted_V = adjusted_V.masked_fill(adjusted_V < floor, float("-inf"))
    point = torch.rand((), dtype=torch.float64, generator=generator)
    if sampling.top_k <= 0 and sampling.top_p >= 1:
        return _pick(adjusted_V.softmax(-1), point)
    probabilities, ids = _candidates(adjusted_V, sampling.top_k, sampling.top_p)
    return int(ids[_pick(probabilities, point)])


def _adjust(
    logits_V: Tensor,
    sampling: Sampling,
    prompt_ids: Sequence[int],
    reply_ids: Sequence[int],
    allowed_V: Tensor | None,
) -> Tensor:
    penalised = bool(sampling.presence_penalty or sampling.frequency_penalty)
    repeated = sampling.repetition_penalty != 1
    early = len(reply_ids) < sampling.min_tokens
    if not (penalised or repeated or early or sampling.logit_bias or allowed_V is not None):
        return logits_V
    adjusted_V = logits_V.clone()
    for token_id, bias in sampling.logit_bias.items():
        adjusted_V[token_id] += bias
    if early:
        endings = list(sampling.ending_ids)
        # A grammar that has come to its end leaves nothing else.
        if allowed_V is None or int(allowed_V.sum()) > int(allowed_V[endings].sum()):
            adjusted_V[endings] = float("-inf")
    if repeated:
        seen = torch.tensor(sorted({*prompt_ids, *reply_ids}), dtype=torch.long)
        values = adjusted_V[seen]
        factor = sampling.repetition_penalty
        adjusted_V[seen] = torch.where(values > 0, values / factor, values * factor)
    if penalised and reply_ids:
        ids, counts = torch.unique(torch.tensor(reply_ids, dtype=torch.long), return_counts=True)
        adjusted_V[ids] -= sampling.frequency_penalty * counts.to(adjusted_V) + sampling.presence_penalty
    if allowed_V is not None:
        adjusted_V.masked_fill_(~allowed_V.to(adjusted_V.device), float("-inf"))
    return adjusted_V


def _candidates(logits_V: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities and ids of the tokens that top_k and then top_p leave, most likely first."""
    size = logits_V.shape[0]
    guess = min(top_k, size) if top_k > 0 else min(_NUCLEUS_GUESS, size)
    values, ids = logits_V.topk(guess)
    total = values.logsumexp(-1) if top_k > 0 else logits_V.logsumexp(-1)
    probabilities = (values - total).exp()
    if top_k <= 0 and guess < size and float(probabilities.sum()) < top_p:
        values, ids = logits_V.sort(descending=True)
        probabilities = (values - total).exp()
    if top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        kept = max(int((before < top_p).sum()), 1)
        probabilities, ids = probabilities[:kept], ids[:kept]
    return probabilities, ids


def _pick(weights_C: Tensor, point: Tensor) -> int:
    """The index at which the running sum of weights passes `point` (0..1) of the whole."""
    sums_C = weights_C.double().cumsum(-1).cpu()
    index = int(torch.searchsorted(sums_C, point * sums_C[-1], right=True))
    return min(index, int((sums_C < sums_C[-1]).sum()))
