"""How far an update moved the policy on fixed replies: log-probabilities and exact KL, before and after."""

# ruff: noqa: N815  (axis suffixes on fields)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from afterturn_trainer.lora import Policy
from afterturn_trainer.losses import exact_kl
from afterturn_trainer.sample import Ids


@dataclass(frozen=True)
class Passage:
    """A prompt and a reply that are read under both adapters; `verdict` is None where it is not asked."""

    turn_id: str
    prompt_ids: Ids
    reply_ids: Ids
    verdict: int | None = None


@dataclass(frozen=True)
class Shift:
    """One passage under the new and the live adapter: log-probabilities of its tokens [T] and
    KL(new ‖ live) at each [T], nats."""

    passage: Passage
    new_T: tuple[float, ...]
    live_T: tuple[float, ...]
    kl_T: tuple[float, ...]

    @property
    def largest(self) -> int:
        """The position whose log-probability moved most."""
        return max(range(len(self.new_T)), key=lambda t: abs(self.new_T[t] - self.live_T[t]))


@torch.no_grad()
def read(policy: Policy, passages: Sequence[Passage], known: Mapping[str, Tensor]) -> list[Tensor]:
    """Last hidden states [T, D] of every passage: all that is needed later, at D instead of V a token.
    `known` are those that were computed before, by turn."""
    return [
        known[passage.turn_id]
        if passage.turn_id in known
        else policy.hidden(passage.prompt_ids, passage.reply_ids)
        for passage in passages
    ]


@torch.no_grad()
def shifts(policy: Policy, passages: Sequence[Passage], live: Sequence[Tensor], chunk: int) -> list[Shift]:
    """Compare the policy as it is now with what `read` saw before the update; no more than
    [chunk, V] logits of each exist at once."""
    found = []
    for passage, live_TD in zip(passages, live, strict=True):
        new_TD = policy.hidden(passage.prompt_ids, passage.reply_ids)
        tokens_T1 = torch.tensor(passage.reply_ids, device=new_TD.device).unsqueeze(-1)
        new, old, kl = [], [], []
        for start in range(0, len(passage.reply_ids), chunk):
            here = slice(start, start + chunk)
            new_CV, live_CV = policy.head(new_TD[here]).float(), policy.head(live_TD[here]).float()
            kl.append(exact_kl(new_CV, live_CV))
            new.append(torch.log_softmax(new_CV, -1).gather(-1, tokens_T1[here]).squeeze(-1))
            old.append(torch.log_softmax(live_CV, -1).gather(-1, tokens_T1[here]).squeeze(-1))
        found.append(Shift(passage, _floats(new), _floats(old), _floats(kl)))
    return found


def _floats(parts: Sequence[Tensor]) -> tuple[float, ...]:
    return tuple(float(value) for value in torch.cat(list(parts)).cpu())
