"""What is kept of ended sequences, for whom, and that it changes no reply (field case B01)."""

import pytest
import torch
from tests.afterturn_engine.replies import Reply, prompt, run

from afterturn_engine.adapters import Adapters
from afterturn_engine.kv_cache import SequenceCache
from afterturn_engine.model import Model
from afterturn_engine.prefixes import Prefixes
from afterturn_engine.scheduler import Scheduler

ROOM = 1 << 20


def cache(tokens: int) -> SequenceCache:
    made = SequenceCache(layers=1, expected_tokens=tokens)
    made.append(0, torch.zeros(1, tokens, 2), torch.zeros(1, tokens, 2))
    made.advance(tokens)
    return made


def test_the_longest_beginning_is_found_and_a_part_is_copied() -> None:
    store, ids = Prefixes(ROOM), list(range(100))
    short, long = cache(30), cache(60)
    store.keep(None, [*ids[:20], *range(500, 510)], short)
    store.keep(None, [*ids[:50], *range(600, 610)], long)
    taken = store.take(None, ids, 100)
    assert taken is not None
    assert taken is not long
    assert taken.length == 50


def test_a_whole_beginning_is_handed_over_once() -> None:
    store, ids = Prefixes(ROOM), list(range(100))
    kept = cache(40)
    store.keep(None, ids[:40], kept)
    assert store.take(None, ids, 100) is kept
    assert store.take(None, ids, 100) is None


def test_the_last_token_is_always_left_to_compute() -> None:
    store, ids = Prefixes(ROOM), list(range(40))
    store.keep(None, ids, cache(40))
    taken = store.take(None, ids, 100)
    assert taken is not None
    assert taken.length == 39


def test_a_longer_sequence_replaces_its_own_beginning() -> None:
    store, ids = Prefixes(ROOM), list(range(100))
    store.keep(None, ids[:30], cache(30))
    store.keep(None, ids[:60], cache(60))
    store.keep(None, ids[:20], cache(20))
    found = [store.take(None, ids, 100) for _ in range(2)]
    assert found[0] is not None
    assert found[0].length == 60
    assert found[1] is None


def test_the_least_recently_used_leaves_when_room_is_short() -> None:
    store = Prefixes(3 * cache(100).bytes)
    for start in (1000, 2000, 3000):
        store.keep(None, list(range(start, start + 100)), cache(100))
    assert store.take(None, list(range(1000, 1050)), 10) is not None  # used: now the youngest
    store.keep(None, list(range(4000, 4100)), cache(100))
    assert store.take(None, list(range(2000, 2050)), 10) is None
    assert store.take(None, list(range(1000, 1050)), 10) is not None


def test_nothing_is_kept_without_room_or_worth() -> None:
    for store, tokens in ((Prefixes(0), 100), (Prefixes(ROOM), 10)):
        store.keep(None, list(range(tokens)), cache(tokens))
        assert store.take(None, list(range(tokens + 1)), 10) is None


def test_a_conversation_computes_only_what_is_new(model: Model, scheduler: Scheduler) -> None:
    first = run(scheduler, Reply(model, prompt(1, 80)))[0]
    longer = [*prompt(1, 80), *first.token_ids, *prompt(2, 10)]
    before = scheduler.prompt_tokens
    warm = run(scheduler, Reply(model, longer))[0]
    # The reply's last token was drawn but never fed.
    assert scheduler.prompt_tokens - before == len(longer) - (80 + 12 - 1)
    again = run(scheduler, Reply(model, longer))[0]
    cold = Scheduler(model, scheduler.limits)
    cold.start()
    fresh = run(cold, Reply(model, longer))[0]
    cold.close()
    for reply in (warm, again):
        assert reply.token_ids == fresh.token_ids
        for ours, theirs in zip(reply.scores, fresh.scores, strict=True):
            assert ours[0].logprob == pytest.approx(theirs[0].logprob, abs=1e-3)


def test_what_still_runs_is_copied_from_too(model: Model, adapters: Adapters, scheduler: Scheduler) -> None:
    """A second request of an agent, while its first is still answered: the long beginning is there."""
    alone = [run(scheduler, Reply(model, [*prompt(5, 80), *prompt(row, 9)]))[0] for row in (6, 7)]
    fresh = Scheduler(model, scheduler.limits)
    fresh.start()
    try:
        first = Reply(model, [*prompt(5, 80), *prompt(6, 9)], max_tokens=400)
        fresh.submit([first.sequence])
        first.next()
        other = Reply(model, [*prompt(5, 80), *prompt(7, 9)], adapters.load("a@v1", "a@v1"))
        run(fresh, other)
        assert fresh.reused_tokens == 0  # other weights
        second = run(fresh, Reply(model, [*prompt(5, 80), *prompt(7, 9)]))[0]
        assert fresh.reused_tokens >= 80
        assert second.token_ids == alone[1].token_ids
        assert first.whole().token_ids[:11] == alone[0].token_ids[1:]
    finally:
        fresh.close()


def test_nothing_computed_with_other_weights_is_reused(
    model: Model, adapters: Adapters, scheduler: Scheduler
) -> None:
    names = [("base", None), *((name, adapters.load(name, name)) for name in ("a@v1", "b@v1"))]
    replies = [run(scheduler, Reply(model, prompt(3, 60), adapter))[0] for _, adapter in names]
    assert scheduler.reused_tokens == 0
    assert len({reply.token_ids for reply in replies}) == 3
    adapters.unload("a@v1")
    renamed = adapters.load("a@v1", "b@v1")  # the same name, other weights
    assert run(scheduler, Reply(model, prompt(3, 60), renamed))[0].token_ids == replies[2].token_ids
    assert scheduler.reused_tokens == 0


def test_scored_prompts_are_computed_whole(model: Model, scheduler: Scheduler) -> None:
    run(scheduler, Reply(model, prompt(4, 60)))
    scored = run(scheduler, Reply(model, prompt(4, 60), prompt_logprobs=0, max_tokens=1))[0]
    assert scored.prompt_scores is not None
    assert len(scored.prompt_scores) == 60
    assert None not in scored.prompt_scores[1:]
    assert scheduler.reused_tokens == 0
