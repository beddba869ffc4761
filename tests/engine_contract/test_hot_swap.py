"""A new version goes live beside the old one: nothing of the old may be left in its answers."""

import shutil
from pathlib import Path

from tests.engine_contract.engine import Engine, Json
from tests.engine_contract.reference import largest_difference, teacher_forced
from tests.engine_contract.test_adapters import WEIGHTS, new_adapter

# Several cache blocks of tokens that every request shares.
SHARED = "You are the assistant of a user. " * 12


def asked(engine: Engine, model: str, shared: str = SHARED) -> Json:
    """The one choice of a greedy reply, its prompt's ids beside it."""
    messages = [{"role": "system", "content": shared}, {"role": "user", "content": "Say one word."}]
    body = engine.chat(model=model, messages=messages, return_token_ids=True, logprobs=True)
    choice: Json = body["choices"][0]
    return {**choice, "prompt_token_ids": body["prompt_token_ids"]}


def off_by(engine: Engine, choice: Json, adapter: Path | None) -> float:
    """How far the reply's log-probabilities are from those of `adapter`, computed afresh."""
    assert engine.model is not None
    want = teacher_forced(engine.model, choice["prompt_token_ids"] + choice["token_ids"], adapter)
    got = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    return largest_difference(got, want[-len(got) :])


def test_a_new_version_answers_as_if_it_had_always_been_there(weighted: Engine, tmp_path: Path) -> None:
    first, second = (new_adapter(weighted, tmp_path, seed, f"v{seed}") for seed in (1, 2))
    old = weighted.loaded(first)
    for _ in range(2):  # the second time the prefix is warm, if the engine keeps one
        assert off_by(weighted, asked(weighted, old), first) <= 1e-3
    new = weighted.loaded(second)
    for _ in range(2):
        warm = asked(weighted, new)
        assert off_by(weighted, warm, second) <= 1e-3
        assert off_by(weighted, warm, first) > 0.1
    cold = asked(weighted, new, "Never seen. " + SHARED)
    assert off_by(weighted, cold, second) <= 1e-3
    # And neither the old version nor the base noticed.
    assert off_by(weighted, asked(weighted, old), first) <= 1e-3
    assert off_by(weighted, asked(weighted, "base"), None) <= 1e-3


def test_the_files_of_a_loaded_adapter_are_not_read_again(weighted: Engine, tmp_path: Path) -> None:
    folder = new_adapter(weighted, tmp_path)
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    name = weighted.loaded(folder)
    (folder / WEIGHTS).write_bytes(b"not what was loaded")
    for number in range(20):
        choice = asked(weighted, name, f"{number} {SHARED}")
    assert off_by(weighted, choice, kept) <= 1e-3


def test_a_refused_version_leaves_the_live_one_as_it_was(weighted: Engine, tmp_path: Path) -> None:
    folder = new_adapter(weighted, tmp_path)
    name = weighted.loaded(folder)
    broken = new_adapter(weighted, tmp_path, 2, "v2")
    (broken / WEIGHTS).write_bytes(b"corrupt")
    assert weighted.load(weighted.fresh_name(), broken).status_code >= 400
    assert off_by(weighted, asked(weighted, name), folder) <= 1e-3


def test_a_name_that_came_back_has_none_of_its_old_weights(embedded: Engine, tmp_path: Path) -> None:
    """Nobody should reuse a name; the embedded engine is right even then."""
    first, second = (new_adapter(embedded, tmp_path, seed, f"v{seed}") for seed in (1, 2))
    name = embedded.loaded(first)
    asked(embedded, name)
    embedded.unload(name)
    assert embedded.load(name, second).status_code == 200
    assert off_by(embedded, asked(embedded, name), second) <= 1e-3


def test_many_versions_come_and_go(weighted: Engine, tmp_path: Path) -> None:
    """More versions than may share a batch, each right while it is there."""
    for seed in range(3, 9):
        folder = new_adapter(weighted, tmp_path, seed, f"v{seed}")
        name = weighted.loaded(folder)
        assert off_by(weighted, asked(weighted, name), folder) <= 1e-3
        assert weighted.unload(name).status_code == 200
