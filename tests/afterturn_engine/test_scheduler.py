"""Steps over many sequences: field case B21, seeds, fairness, cancellation, the queue."""

import threading
import time

import pytest
from tests.afterturn_engine.replies import Reply, prompt, run

from afterturn_engine.adapters import Adapters
from afterturn_engine.errors import GenerationFailed, QueueFull
from afterturn_engine.grammar import Follower, Grammar, GrammarFailed, Grammars
from afterturn_engine.model import Model
from afterturn_engine.scheduler import (
    PREFILL_ALONE,
    PREFILL_BESIDE_REPLIES,
    Limits,
    Scheduler,
    prefill_shares,
)


def test_mixed_adapters_side_by_side_equal_serial_runs(
    model: Model, adapters: Adapters, scheduler: Scheduler
) -> None:
    a, b = adapters.load("a@v1", "a@v1"), adapters.load("b@v1", "b@v1")
    chosen = [a, a, a, b, b, b, None, None]

    def replies() -> list[Reply]:
        return [
            Reply(model, prompt(row, 5 + 9 * row), adapter, max_tokens=40)
            for row, adapter in enumerate(chosen)
        ]

    serial = [run(scheduler, reply)[0] for reply in replies()]
    together = replies()
    scheduler.submit([reply.sequence for reply in together])
    together[1].next()
    scheduler.cancel([together[1].sequence])  # an A reply leaves midway
    adapters.unload("a@v1")  # the others that began on A finish on A
    for row in (0, 2, 3, 4, 5, 6, 7):
        whole = together[row].whole()
        assert whole.token_ids == serial[row].token_ids
        for ours, alone in zip(whole.scores, serial[row].scores, strict=True):
            assert ours[0].logprob == pytest.approx(alone[0].logprob, abs=1e-3)
    assert len({serial[row].token_ids for row in range(8)}) == 8


class Broken(Follower):
    """Fails behind the second token, as a grammar that grew too complex does."""

    taken = 0

    def take(self, token_id: int) -> None:
        self.taken += 1
        if self.taken > 2:
            raise GrammarFailed("too complex")
        super().take(token_id)


class BreaksLater(Grammar):
    def begin(self) -> Broken:
        return Broken(self._matcher.deep_copy(), self._tokenizer, self._size)


def test_a_grammar_that_fails_ends_its_own_reply_alone(
    model: Model, scheduler: Scheduler, grammars: Grammars
) -> None:
    sound = grammars.compile("start: /(?s:.*)/", "field")
    (alone,) = run(scheduler, Reply(model, prompt(1, 9), grammar=sound))
    broken = BreaksLater(sound._matcher, sound._tokenizer, sound._size)
    failing, beside = Reply(model, prompt(1, 9), grammar=broken), Reply(model, prompt(1, 9), grammar=sound)
    scheduler.submit([failing.sequence, beside.sequence])
    assert len(failing.next().token_ids + failing.next().token_ids) == 2
    with pytest.raises(GenerationFailed):
        failing.next()
    assert beside.whole().token_ids == alone.token_ids
    assert run(scheduler, Reply(model, prompt(1, 9)))[0].finish_reason == "length"


def test_a_seed_reproduces_whatever_runs_beside_it(model: Model, scheduler: Scheduler) -> None:
    def sampled(seed: int | None) -> Reply:
        return Reply(model, prompt(1, 9), temperature=1.0, top_p=0.9, seed=seed, max_tokens=20)

    alone = run(scheduler, sampled(7))[0]
    beside = run(scheduler, sampled(8), sampled(7), Reply(model, prompt(2, 50)), sampled(None), sampled(None))
    assert beside[1].token_ids == alone.token_ids
    assert len({reply.token_ids for reply in beside}) == 5


def test_scores_equal_teacher_forcing(model: Model, scheduler: Scheduler) -> None:
    reply = run(
        scheduler, Reply(model, prompt(4, 30), temperature=1.0, top_k=5, presence_penalty=1.5, seed=3)
    )[0]
    forced = run(
        scheduler, Reply(model, [*prompt(4, 30), *reply.token_ids], max_tokens=1, prompt_logprobs=2)
    )[0]
    assert forced.prompt_scores is not None
    assert forced.prompt_scores[0] is None
    assert len(forced.prompt_scores) == 42
    for drawn, again in zip(reply.scores, forced.prompt_scores[30:], strict=True):
        assert again is not None
        assert drawn[0].token_id == again[0].token_id
        assert drawn[0].logprob == pytest.approx(again[0].logprob, abs=1e-4)


def test_siblings_share_one_prefill_and_equal_replies_of_their_own(
    model: Model, scheduler: Scheduler
) -> None:
    before = scheduler.prompt_tokens
    leader = Reply(model, prompt(3, 100), temperature=1.0, seed=1)
    siblings = [Reply(model, prompt(3, 100), leader=leader, temperature=1.0, seed=s) for s in (2, 3)]
    together = run(scheduler, leader, *siblings)
    assert scheduler.prompt_tokens - before == 100 + 1 + 1
    alone = [run(scheduler, Reply(model, prompt(3, 100), temperature=1.0, seed=s))[0] for s in (1, 2, 3)]
    assert [r.token_ids for r in together] == [r.token_ids for r in alone]


def test_a_long_prompt_does_not_hold_up_running_replies(model: Model, scheduler: Scheduler) -> None:
    talking = Reply(model, prompt(1, 5), max_tokens=200)
    scheduler.submit([talking.sequence])
    talking.next()
    long = Reply(model, prompt(2, 1000), max_tokens=1)
    scheduler.submit([long.sequence])
    long.whole()
    # While the long prompt was computed the other reply got a token in each of its steps.
    assert talking.heard() >= 1000 // PREFILL_BESIDE_REPLIES - 2
    scheduler.cancel([talking.sequence])


def test_a_short_prompt_does_not_wait_for_a_long_one(model: Model, scheduler: Scheduler) -> None:
    order: list[str] = []
    long = Reply(model, prompt(2, 1500), max_tokens=1, on_delta=lambda: order.append("long"))
    short = Reply(model, prompt(1, 20), max_tokens=3, on_delta=lambda: order.append("short"))
    run(scheduler, long, short)
    assert order == ["short", "short", "short", "long"]


@pytest.mark.parametrize(
    ("pending", "shares"),
    [
        ([], []),
        ([0, 0], [0, 0]),
        ([1000], [PREFILL_ALONE]),
        ([0, 1000], [0, PREFILL_BESIDE_REPLIES]),
        ([10, 1000], [10, PREFILL_ALONE - 10]),
        ([1000, 10, 1000], [123, 10, 123]),
        ([0, *[9] * 100], [0, *[1] * 100]),
    ],
)
def test_prefill_shares(pending: list[int], shares: list[int]) -> None:
    assert [abs(a - b) <= 1 for a, b in zip(prefill_shares(pending), shares, strict=True)] == [True] * len(
        shares
    )


def test_cancelled_replies_stop_within_a_token(model: Model, scheduler: Scheduler) -> None:
    reply = Reply(model, prompt(1, 5), max_tokens=1500)
    scheduler.submit([reply.sequence])
    for _ in range(3):
        reply.next()
    scheduler.cancel([reply.sequence])
    at_cancel = scheduler.sampled_tokens
    run(scheduler, Reply(model, prompt(2, 5), max_tokens=1))
    assert scheduler.sampled_tokens - at_cancel <= 2 + 1
    assert reply.heard() <= 2


def test_cancelled_while_waiting_never_runs(model: Model) -> None:
    scheduler = Scheduler(model, Limits(sequences=1, queue=4))
    scheduler.start()
    first, second = Reply(model, prompt(1, 5), max_tokens=100), Reply(model, prompt(2, 900))
    scheduler.submit([first.sequence])
    scheduler.submit([second.sequence])
    scheduler.cancel([second.sequence])
    first.whole()
    run(scheduler, Reply(model, prompt(3, 4), max_tokens=1))
    assert scheduler.prompt_tokens == 9
    assert second.heard() == 0
    scheduler.close()


def test_a_full_queue_refuses_all_of_a_request(model: Model) -> None:
    scheduler = Scheduler(model, Limits(sequences=1, queue=2))
    replies = [Reply(model, prompt(row, 5)) for row in range(5)]
    scheduler.submit([r.sequence for r in replies[:2]])  # not started: one may run, two may wait
    with pytest.raises(QueueFull):
        scheduler.submit([r.sequence for r in replies[2:4]])
    scheduler.submit([replies[4].sequence])
    scheduler.start()
    assert [len(replies[i].whole().token_ids) for i in (0, 1, 4)] == [12, 12, 12]
    scheduler.close()


def test_those_who_wait_hear_of_the_end(model: Model) -> None:
    scheduler = Scheduler(model, Limits(sequences=1, queue=2))
    scheduler.start()
    replies = [Reply(model, prompt(row, 5), max_tokens=1500) for row in range(2)]
    scheduler.submit([r.sequence for r in replies])
    replies[0].next()
    scheduler.close()
    for reply in replies:
        with pytest.raises(GenerationFailed):
            reply.whole()
    with pytest.raises(QueueFull):
        scheduler.submit([replies[0].sequence])


def test_a_failing_step_ends_its_sequences_and_no_others(model: Model, scheduler: Scheduler) -> None:
    poisoned = Reply(model, [model.vocabulary_size + 5])  # an id the embedding does not have
    with pytest.raises(GenerationFailed):
        run(scheduler, poisoned)
    assert len(run(scheduler, Reply(model, prompt(1, 5)))[0].token_ids) == 12


@pytest.mark.parametrize("keep", [False, True])
def test_a_stop_string_ends_the_reply_and_its_tokens_stay(
    model: Model, scheduler: Scheduler, keep: bool
) -> None:
    free = run(scheduler, Reply(model, prompt(5, 8), max_tokens=30))[0]
    stop = free.text[3:6]
    assert len(stop) == 3
    ended = run(
        scheduler,
        Reply(model, prompt(5, 8), max_tokens=30, stop=(stop,), include_stop_str_in_output=keep),
    )[0]
    assert (ended.finish_reason, ended.stop_reason) == ("stop", stop)
    cut = free.text.index(stop) + (len(stop) if keep else 0)
    assert ended.text == free.text[:cut]
    assert ended.token_ids == free.token_ids[: len(ended.token_ids)]
    assert len(ended.token_ids) < 30


def test_end_tokens_end_with_themselves_in_the_ids(model: Model, scheduler: Scheduler) -> None:
    free = run(scheduler, Reply(model, prompt(6, 8), max_tokens=6))[0]
    ended = run(
        scheduler, Reply(model, prompt(6, 8), max_tokens=6, stop_token_ids=frozenset({free.token_ids[3]}))
    )[0]
    assert ended.token_ids == free.token_ids[: free.token_ids.index(free.token_ids[3]) + 1]
    assert (ended.finish_reason, ended.stop_reason) == ("stop", free.token_ids[3])
    assert len(ended.scores) == len(ended.token_ids)


def test_submitting_from_many_threads(model: Model, scheduler: Scheduler) -> None:
    replies = [Reply(model, prompt(row, 4), max_tokens=3) for row in range(12)]
    threads = [threading.Thread(target=scheduler.submit, args=([r.sequence],)) for r in replies]
    for thread in threads:
        thread.start()
        time.sleep(0)
    for thread in threads:
        thread.join()
    assert all(len(reply.whole().token_ids) == 3 for reply in replies)
