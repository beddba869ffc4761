"""Stop strings, seeds, and log-probabilities that are the model's own."""

import pytest
from tests.engine_contract.engine import Engine
from tests.engine_contract.reference import largest_difference, teacher_forced
from tests.engine_contract.test_chat import chat_text, sampled_ids


def stop_inside(text: str, length: int) -> str:
    """A run of plain characters that occurs in `text` for the first time well after its start."""
    for at in range(2, len(text) - length):
        run = text[at : at + length]
        if run.isascii() and run.isprintable() and text.index(run) == at:
            return run
    raise AssertionError(f"no plain run of {length} characters in {text!r}")


@pytest.mark.parametrize("length", [1, 2, 3])
def test_text_ends_before_a_stop_string_and_ids_with_it(engine: Engine, length: int) -> None:
    (free,) = engine.chat(max_tokens=64, return_token_ids=True)["choices"]
    said = free["message"]["content"]
    stop = stop_inside(said, length)
    (cut,) = engine.chat(max_tokens=64, return_token_ids=True, stop=[stop, "never said"])["choices"]
    assert cut["message"]["content"] == said[: said.index(stop)]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", stop)
    # What was sampled is reported whole: up to the token that completed the stop string, and no further.
    assert 0 < len(cut["token_ids"]) < len(free["token_ids"])
    assert cut["token_ids"] == free["token_ids"][: len(cut["token_ids"])]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_stream_never_shows_a_piece_of_a_stop_string(engine: Engine, length: int) -> None:
    (free,) = engine.chat(max_tokens=64)["choices"]
    stop = stop_inside(free["message"]["content"], length)
    (cut,) = engine.chat(max_tokens=64, stop=stop, return_token_ids=True)["choices"]
    events = engine.chat_events(max_tokens=64, stop=stop, return_token_ids=True)
    assert chat_text(events) == cut["message"]["content"]
    assert sampled_ids(events) == cut["token_ids"]
    assert events[-1]["choices"][0]["stop_reason"] == stop


def test_a_stop_string_that_never_comes_loses_no_text(engine: Engine) -> None:
    (free,) = engine.chat()["choices"]
    events = engine.chat_events(stop=["never said", "\x00\x00"])
    assert chat_text(events) == free["message"]["content"]
    assert events[-1]["choices"][0]["finish_reason"] == free["finish_reason"]


def test_a_seed_repeats_and_another_differs(weighted: Engine) -> None:
    def sampled(seed: int) -> list[int]:
        (choice,) = weighted.chat(temperature=1.0, seed=seed, return_token_ids=True)["choices"]
        return list(choice["token_ids"])

    assert sampled(7) == sampled(7)
    assert sampled(7) != sampled(8)


def test_choices_of_one_seed_differ(weighted: Engine) -> None:
    first, second = weighted.chat(temperature=1.0, seed=7, n=2, return_token_ids=True)["choices"]
    assert first["token_ids"] != second["token_ids"]


def test_the_end_of_turn_token_is_sampled_reported_and_unseen(weighted: Engine) -> None:
    (choice,) = weighted.chat(temperature=1.0, seed=1, max_tokens=1500, return_token_ids=True, logprobs=True)[
        "choices"
    ]
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"][-1] == 2
    assert choice["logprobs"]["content"][-1]["token"] == "<|im_end|>"
    assert "<|im_end|>" not in choice["message"]["content"]


@pytest.mark.parametrize("temperature", [0, 1.7])
def test_logprobs_are_the_models_own_whatever_the_sampling(weighted: Engine, temperature: float) -> None:
    assert weighted.model is not None
    body = weighted.chat(
        temperature=temperature,
        seed=5,
        top_p=0.8,
        presence_penalty=0.5,
        return_token_ids=True,
        logprobs=True,
    )
    (choice,) = body["choices"]
    want = teacher_forced(weighted.model, body["prompt_token_ids"] + choice["token_ids"])
    got = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert largest_difference(got, want[-len(got) :]) <= 1e-3


def test_prompt_logprobs_are_the_models_own(weighted: Engine) -> None:
    assert weighted.model is not None
    prompt = "The sea, the stars and you: 12 ships, naïve & far — off."
    (choice,) = weighted.complete(prompt=prompt, prompt_logprobs=0, max_tokens=1, return_token_ids=True)[
        "choices"
    ]
    ids = choice["prompt_token_ids"]
    records = choice["prompt_logprobs"][1:]
    got = [record[str(token_id)]["logprob"] for token_id, record in zip(ids[1:], records, strict=True)]
    assert largest_difference(got, teacher_forced(weighted.model, ids)) <= 1e-3
