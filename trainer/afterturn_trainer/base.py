"""The base model as the trainer holds it: a copy of its own, in its own process."""

import gc
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from afterturn_core.base_model import model_hash, model_location
from afterturn_core.errors import RoundFailed
from afterturn_core.settings import Settings
from afterturn_trainer.teacher_prompt import Tokenizer


@dataclass(frozen=True)
class Base:
    """Model, tokenizer, and the hash that turns and adapters carry."""

    model: PreTrainedModel
    tokenizer: Tokenizer
    hash: str


def load_base(settings: Settings) -> Base:
    """Load the model the engine serves: float32 on a CPU, bfloat16 on a GPU.

    Raises:
        RoundFailed: there is no such model.
    """
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    location = model_location(settings)
    on_gpu = torch.cuda.is_available()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            location, dtype=torch.bfloat16 if on_gpu else torch.float32, attn_implementation="sdpa"
        )
        tokenizer = AutoTokenizer.from_pretrained(location)
    except (OSError, ValueError) as error:
        raise RoundFailed(f"the base model at {location} cannot be loaded: {error}") from error
    # Everything that is alive now stays: looking through it again at each collection is wasted time.
    gc.freeze()
    return Base(
        model=cast(PreTrainedModel, nn.Module.to(model, "cuda" if on_gpu else "cpu")),
        tokenizer=cast(Tokenizer, tokenizer),
        hash=model_hash(location),
    )
