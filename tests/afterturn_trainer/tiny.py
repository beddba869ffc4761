"""A tiny random Llama, the same on every call."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from afterturn_trainer.lora import Policy, attach
from afterturn_trainer.sample import Sample, make_sample
from afterturn_trainer.settings import LearningSettings

VOCAB = 61
SETTINGS = LearningSettings(learning_rate=1e-2, lora_rank=4, lora_alpha=8, minibatch=2, min_hint_effect=0.0)


def tiny_model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3.0)  # away from uniform, so that hints and ratios have something to move
            # The pad row starts as zeros; here, as in many models, it is the end of turn too.
            model.get_input_embeddings().weight[2].normal_(0.0, 0.06)
    return model


def tiny_policy(settings: LearningSettings = SETTINGS) -> Policy:
    return attach(tiny_model(), settings)


def reply_logprobs(policy: Policy, prompt_ids: tuple[int, ...], reply_ids: tuple[int, ...]) -> list[float]:
    """What a faithful engine would have returned for the policy as it is now."""
    with torch.no_grad():
        logprobs = torch.log_softmax(policy.head(policy.hidden(prompt_ids, reply_ids)), -1)
    return [float(row[token]) for row, token in zip(logprobs, reply_ids, strict=True)]


def tiny_sample(
    policy: Policy,
    name: str,
    verdict: int | None,
    hints: tuple[tuple[int, ...], ...] = (),
    prompt: tuple[int, ...] = (5, 6, 7),
    reply: tuple[int, ...] = (11, 12, 13, 2),
) -> Sample:
    return make_sample(
        name,
        prompt,
        reply,
        reply_logprobs(policy, prompt, reply),
        verdict=verdict,
        teacher_prompts=[(*prompt, *hint) for hint in hints],
    )
