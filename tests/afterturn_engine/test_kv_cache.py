import pytest
import torch

from afterturn_engine.kv_cache import SequenceCache


def fill(cache: SequenceCache, tokens: int, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    added = torch.randn(2, tokens, 3)
    for layer in range(2):
        keys, values = cache.append(layer, added, -added)
    cache.advance(tokens)
    assert torch.equal(keys, -values)
    return added


def test_growth_keeps_what_is_there() -> None:
    cache = SequenceCache(layers=2, expected_tokens=10)
    parts = [fill(cache, tokens, seed) for seed, tokens in enumerate((5, 1, 200, 300, 1))]
    keys, _ = cache.append(1, torch.zeros(2, 1, 3), torch.zeros(2, 1, 3))
    assert cache.length == 507
    assert torch.equal(keys[:, :507], torch.cat(parts, dim=1))


def test_a_fork_shares_nothing() -> None:
    cache = SequenceCache(layers=2, expected_tokens=4)
    first = fill(cache, 4, 0)
    copy = cache.fork(3, expected_tokens=8)
    fill(cache, 1, 1)
    fill(copy, 1, 2)
    keys, _ = copy.append(0, torch.zeros(2, 1, 3), torch.zeros(2, 1, 3))
    assert copy.length == 4
    assert torch.equal(keys[:, :3], first[:, :3])
    with pytest.raises(ValueError, match="cannot copy 9"):
        cache.fork(9, 9)
