"""A tiny random model, its tokenizer and adapters for it: the real file formats at test size.

`build_tiny_model` and `build_tiny_adapter` are deterministic: same arguments, same bytes of weights.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT_LENGTH = 2048
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Frequent pairs as merges, so that text takes fewer tokens than bytes and tokens straddle words.
MERGES = (
    ("t", "h"), ("th", "e"), ("i", "n"), ("e", "r"), ("a", "n"), ("Ġ", "a"), ("Ġ", "t"), ("Ġ", "the"),
    ("o", "n"), ("r", "e"), ("o", "u"), ("y", "ou"), ("Ġ", "you"), ("in", "g"), ("an", "d"), ("Ġ", "and"),
    ("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("s", "t"), ("u", "s"), ("us", "er"), ("s", "y"),
    ("sy", "st"), ("syst", "e"), ("syste", "m"), ("a", "s"), ("as", "s"), ("o", "r"), ("Ġ", "s"), ("Ġ", "o"),
    ("Ġ", "w"), ("e", "n"), ("a", "t"), ("o", "f"), ("Ġ", "of"), ("Ġ", "b"), ("Ġ", "c"), ("e", "s"),
    ("i", "t"), ("i", "s"), ("Ġ", "is"), ("a", "r"), ("l", "e"),
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def build_tiny_model(folder: Path, seed: int = 0) -> Path:
    """Write a two-layer random Llama (hidden 64, grouped heads, tied embeddings) with a ChatML tokenizer."""
    tokenizer = _tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        # Heads of 32: the narrowest that vLLM's CPU attention takes, so that it can serve this model too.
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        # Wide weights: greedy choices of a random model should not hang on rounding.
        initializer_range=0.3,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = 2
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_tiny_adapter(
    folder: Path, model_folder: Path, name: str, scale: float = 1.0, seed: int = 0, rank: int = 4
) -> Path:
    """Write a random PEFT LoRA folder `folder/name`; `scale` is the standard deviation of both factors.

    0 gives an adapter that changes nothing; 0.3 changes most greedy choices.
    """
    config = json.loads((model_folder / "config.json").read_text("utf-8"))
    hidden, heads, inner = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"]
    head_size = config.get("head_dim") or hidden // heads
    keys = config["num_key_value_heads"] * head_size
    shapes = {  # projection -> (in, out)
        "self_attn.q_proj": (hidden, heads * head_size),
        "self_attn.k_proj": (hidden, keys),
        "self_attn.v_proj": (hidden, keys),
        "self_attn.o_proj": (heads * head_size, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for layer in range(config["num_hidden_layers"]):
        for projection, (size_in, size_out) in shapes.items():
            prefix = f"base_model.model.model.layers.{layer}.{projection}"
            tensors[f"{prefix}.lora_A.weight"] = torch.randn(rank, size_in, generator=generator) * scale
            tensors[f"{prefix}.lora_B.weight"] = torch.randn(size_out, rank, generator=generator) * scale
    adapter = folder / name
    adapter.mkdir(parents=True)
    save_file(tensors, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(model_folder),
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(PROJECTIONS),
        "inference_mode": True,
    }
    (adapter / "adapter_config.json").write_text(json.dumps(settings), "utf-8")
    return adapter


def _tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL_TOKENS, *alphabet, *("".join(pair) for pair in MERGES)]
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=list(MERGES)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token=SPECIAL_TOKENS[0],
        bos_token=SPECIAL_TOKENS[1],
        eos_token=SPECIAL_TOKENS[2],
        pad_token=SPECIAL_TOKENS[2],
        model_max_length=CONTEXT_LENGTH,
        chat_template=CHAT_TEMPLATE,
    )
