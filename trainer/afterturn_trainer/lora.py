"""The policy in training: a frozen base model with one LoRA, read from and written to PEFT folders."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from afterturn_core.adapter_files import CONFIG, WEIGHTS
from afterturn_trainer.faults import Misaligned, NonFinite
from afterturn_trainer.settings import LearningSettings


class Policy:
    """Base model plus the adapter in training.

    At the start of a round the adapter is the parent's, so whatever is computed before the first step is
    pi_old; inside `base()` it is pi_0. The head is not adapted, so log-probabilities of any of them follow
    from their last hidden states alone.
    """

    def __init__(self, peft_model: PeftModel) -> None:
        self._peft = peft_model
        model = peft_model.get_base_model()
        for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
            if getattr(model.config, name, None) not in (None, 1, 1.0):
                raise Misaligned(f"the model changes its logits after the head ({name}); not supported")
        base = cast(PreTrainedModel, model)
        self._decoder = cast(nn.Module, base.get_decoder())  # type: ignore[no-untyped-call]
        self._head = cast(nn.Module, base.get_output_embeddings())  # type: ignore[no-untyped-call]

    @property
    def device(self) -> torch.device:
        return next(self._decoder.parameters()).device

    def head(self, hidden_CD: Tensor) -> Tensor:
        """Logits [C, V] of hidden states [C, D]."""
        return cast(Tensor, self._head(hidden_CD))

    def hidden(self, prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> Tensor:
        """Last hidden states [T, D] at the positions that predict each reply token."""
        ids_1S = torch.tensor([[*prompt_ids, *reply_ids]], device=self.device)
        hidden_1SD = self._decoder(input_ids=ids_1S[:, :-1], use_cache=False).last_hidden_state
        return cast(Tensor, hidden_1SD[0, len(prompt_ids) - 1 :])

    @contextmanager
    def base(self) -> Iterator[None]:
        """pi_0: the adapter switched off."""
        with self._peft.disable_adapter():
            yield

    def trainable(self) -> dict[str, nn.Parameter]:
        """LoRA weights by their name, in a fixed order."""
        named = sorted(self._peft.named_parameters())
        return {name: weight for name, weight in named if weight.requires_grad}

    def save(self, folder: Path) -> None:
        """Write a PEFT folder (`adapter_config.json`, `adapter_model.safetensors`), nothing else.

        Raises NonFinite before a byte is written when a weight is not finite.
        """
        for name, weight in self.trainable().items():
            if not torch.isfinite(weight).all():
                raise NonFinite(f"weight {name} is not finite")
        self._peft.save_pretrained(str(folder), save_embedding_layers=False)
        for extra in folder.iterdir():
            if extra.name not in (CONFIG, WEIGHTS):
                os.unlink(extra)


def projections(model: PreTrainedModel) -> list[str]:
    """Leaf names of all attention and MLP projections: every linear layer but the output head."""
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    names = {
        name.rsplit(".", 1)[-1]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }
    if not names:
        raise Misaligned("the model has no linear projection to adapt")
    return sorted(names)


def attach(model: PreTrainedModel, settings: LearningSettings, parent: Path | None = None) -> Policy:
    """The policy to train: the parent's adapter, or a fresh one that changes nothing yet (B = 0).

    Raises NonFinite for a parent with a NaN or an infinity, Misaligned for one that no engine would serve
    the way it is trained (rank or scale patterns, DoRA, biases, extra modules).
    """
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    if parent is not None:
        check_folder(parent)
        with _peft_asks_by_an_old_name():
            continued = PeftModel.from_pretrained(model, str(parent), is_trainable=True)
        # An adapter that was imported may name a dropout, which serving would not reproduce.
        continued.eval()
        return Policy(continued)
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=0.0,
        target_modules=projections(model),
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), _peft_asks_by_an_old_name():
        torch.manual_seed(settings.seed)
        return Policy(cast(PeftModel, get_peft_model(model, config)))


@contextmanager
def _peft_asks_by_an_old_name() -> Iterator[None]:
    """PEFT 0.21 reads a property that transformers 5.24 renamed; the warning is theirs to settle."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`", category=FutureWarning)
        yield


UNSERVED = ("rank_pattern", "alpha_pattern", "modules_to_save", "use_dora", "use_rslora", "lora_bias")


def check_folder(folder: Path) -> None:
    """Raise unless the folder holds a plain, finite LoRA."""
    config = LoraConfig.from_pretrained(str(folder))
    odd = [name for name in UNSERVED if getattr(config, name, None)]
    if config.bias != "none":
        odd.append("bias")
    if odd:
        raise Misaligned(f"adapter uses {', '.join(odd)}, which serving would not reproduce")
    for name, weight in load_file(folder / WEIGHTS).items():
        if not torch.isfinite(weight).all():
            raise NonFinite(f"adapter weight {name} is not finite")
