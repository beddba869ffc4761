"""The base model behind one call: a ragged batch of token runs in, logits of chosen positions out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from afterturn_engine.adapters import Adapter, Target
from afterturn_engine.errors import StartFailed
from afterturn_engine.kv_cache import SequenceCache
from afterturn_engine.lora import Segment, Segments, make_adaptable

_ATTENTION = "afterturn_ragged"
_PROBE_LENGTH = 12


@dataclass(frozen=True)
class Run:
    """Consecutive new tokens of one sequence; `wanted` are the offsets in `ids` whose logits are needed."""

    ids: Sequence[int]
    cache: SequenceCache
    adapter: Adapter | None
    wanted: Sequence[int]


@dataclass(frozen=True)
class _Rows:
    start: int
    end: int
    cache: SequenceCache
    mask: Tensor | None  # [N, L]: 0 where new token N may look at position L, -inf elsewhere


class _AttentionModule(Protocol):
    layer_idx: int


class Model:
    """A causal language model of any Hugging Face architecture whose attention can be replaced.

    Not thread-safe: one thread calls `forward`.
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: TokenizersBackend, path: str, max_length: int
    ) -> None:
        self.tokenizer = tokenizer
        self.path = path
        self.max_length = max_length
        self.device = network.device
        self.dtype = network.dtype
        self.layers = int(network.config.get_text_config().num_hidden_layers)
        self.vocabulary_size = int(network.config.get_text_config().vocab_size)
        self.eos_token_ids = _eos_token_ids(network, tokenizer)
        self.default_sampling = _default_sampling(network)
        self._network = network
        self._segments = Segments()
        expected = self._probe_plain()
        network.set_attn_implementation(_ATTENTION)
        self.targets: dict[str, Target] = make_adaptable(*_decoder(network), self._segments)
        self._check_probe(expected)

    @torch.inference_mode()
    def forward(self, runs: Sequence[Run]) -> Tensor:
        """One forward pass over all runs, flattened; appends to their caches.

        Runs of one adapter must be adjacent. Returns float32 logits [W, V], the wanted positions of the
        runs in order.
        """
        ids = [token_id for run in runs for token_id in run.ids]
        positions = [run.cache.length + i for run in runs for i in range(len(run.ids))]
        rows: list[_Rows] = []
        wanted: list[int] = []
        start = 0
        for run in runs:
            end = start + len(run.ids)
            mask = _causal_mask(run.cache.length, len(run.ids), self.device, self.dtype)
            rows.append(_Rows(start, end, run.cache, mask))
            wanted += [start + offset for offset in run.wanted]
            start = end
        self._segments.current = _segments(runs)
        logits_1WV: Tensor = self._network(
            input_ids=torch.tensor([ids], device=self.device),
            position_ids=torch.tensor([positions], device=self.device),
            use_cache=False,
            logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=self.device),
            ragged_rows=rows,
        ).logits
        for run in runs:
            run.cache.advance(len(run.ids))
        return logits_1WV[0].float()

    def _probe_ids(self) -> list[int]:
        return [(7 * i + 3) % self.vocabulary_size for i in range(_PROBE_LENGTH)]

    @torch.inference_mode()
    def _probe_plain(self) -> Tensor:
        logits: Tensor = self._network(input_ids=torch.tensor([self._probe_ids()], device=self.device)).logits
        return logits[0].float()

    def _check_probe(self, expected_TV: Tensor) -> None:
        """An architecture that ignores the replaced attention would answer nonsense: refuse it at start."""
        ids, cache = self._probe_ids(), SequenceCache(self.layers, _PROBE_LENGTH)
        split = _PROBE_LENGTH // 2
        parts = [ids[:split], ids[split:-1], ids[-1:]]
        try:
            logits = [self.forward([Run(part, cache, None, range(len(part)))]) for part in parts]
        except (TypeError, ValueError, RuntimeError) as error:
            raise StartFailed(f"{self.path}: this architecture cannot be served here: {error}") from error
        tolerance = 1e-3 if self.dtype == torch.float32 else 0.5
        difference = (torch.cat(logits).log_softmax(-1) - expected_TV.log_softmax(-1)).abs().max().item()
        if not difference < tolerance:
            raise StartFailed(
                f"{self.path}: this architecture cannot be served here: its log-probabilities differ by "
                f"{difference:.2g} from the plain model's"
            )


def load_model(path: str, max_length: int | None) -> Model:
    """Load a local folder or hub id; float32 on a CPU, bfloat16 on CUDA. Raises StartFailed."""
    if Path(path).exists() and not (Path(path) / "config.json").is_file():
        raise StartFailed(f"{path} is not a model folder: it has no config.json")
    on_gpu = torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        network = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.bfloat16 if on_gpu else torch.float32, attn_implementation="sdpa"
        )
    except (OSError, ValueError) as error:
        raise StartFailed(f"cannot load the model {path}: {str(error).splitlines()[0]}") from error
    if not isinstance(tokenizer, TokenizersBackend):
        raise StartFailed(f"{path}: its tokenizer has no tokenizer.json, which streaming text needs")
    network.train(False)
    network.requires_grad_(False)
    if on_gpu:
        nn.Module.to(network, "cuda")
    own_length = int(network.config.get_text_config().max_position_embeddings)
    if max_length is not None and max_length > own_length:
        raise StartFailed(f"--max-model-len {max_length} is more than the model's own {own_length}")
    return Model(network, tokenizer, path, max_length or own_length)


def _attend(
    module: nn.Module,
    query_1HND: Tensor,
    key_1KND: Tensor,
    value_1KND: Tensor,
    attention_mask: None,
    scaling: float,
    ragged_rows: list[_Rows],
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_ignored: object,
) -> tuple[Tensor, None]:
    """Each run attends to its own cache, whatever stands beside it in the batch.

    H query heads share K key-value heads. For a single new token the heads of a group become query
    positions, so that each key is read once; for longer runs keys are expanded without a copy.
    """
    if softcap is not None:
        raise ValueError("attention soft-capping is not supported")
    if sliding_window is not None:
        raise ValueError("sliding-window attention is not supported")
    heads, tokens, size = query_1HND.shape[1:]
    kv_heads = key_1KND.shape[1]
    output_NHD = query_1HND.new_empty((tokens, heads, size))
    layer = cast(_AttentionModule, module).layer_idx
    for row in ragged_rows:
        at = slice(row.start, row.end)
        keys_KLD, values_KLD = row.cache.append(layer, key_1KND[0, :, at], value_1KND[0, :, at])
        query_HND = query_1HND[0, :, at]
        if row.mask is None:
            attended = functional.scaled_dot_product_attention(
                query_HND.reshape(1, kv_heads, -1, size), keys_KLD[None], values_KLD[None], scale=scaling
            )
            output_NHD[row.start] = attended.view(heads, size)
        else:
            group = heads // kv_heads
            attended = functional.scaled_dot_product_attention(
                query_HND.reshape(kv_heads, group, -1, size),
                keys_KLD[:, None].expand(-1, group, -1, -1),
                values_KLD[:, None].expand(-1, group, -1, -1),
                attn_mask=row.mask,
                scale=scaling,
            )
            output_NHD[at] = attended.reshape(heads, -1, size).transpose(0, 1)
    return output_NHD[None], None


AttentionInterface.register(_ATTENTION, _attend)


def _causal_mask(past: int, new: int, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    """See `_Rows.mask`; None for a single token, which may look at everything."""
    if new == 1:
        return None
    return torch.full((new, past + new), float("-inf"), device=device, dtype=dtype).triu_(past + 1)


def _segments(runs: Sequence[Run]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    start = 0
    for run in runs:
        end = start + len(run.ids)
        if run.adapter is not None:
            if segments and segments[-1].adapter is run.adapter and segments[-1].end == start:
                segments[-1] = Segment(segments[-1].start, end, run.adapter)
            else:
                segments.append(Segment(start, end, run.adapter))
        start = end
    return tuple(segments)


def _decoder(network: PreTrainedModel) -> tuple[nn.Module, str]:
    """The blocks without the output head, and their name inside the network."""
    decoder: nn.Module = network.get_decoder()  # type: ignore[no-untyped-call]
    return decoder, next(name for name, module in network.named_modules() if module is decoder)


def _eos_token_ids(network: PreTrainedModel, tokenizer: TokenizersBackend) -> frozenset[int]:
    configured = network.generation_config.eos_token_id if network.generation_config else None
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(int(i) for i in (*listed, tokenizer.eos_token_id) if i is not None)


def _default_sampling(network: PreTrainedModel) -> dict[str, float]:
    """What the model's own generation_config.json sets, where a request says nothing (as in vLLM)."""
    config = network.generation_config
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    values = {name: getattr(config, name, None) for name in names} if config is not None else {}
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
