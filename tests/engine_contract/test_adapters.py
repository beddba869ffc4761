"""Adapters come and go while the engine serves; what cannot be loaded is refused and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.engine_contract.engine import Engine, completion_body
from tests.engine_contract.reference import largest_difference, teacher_forced
from tests.engine_contract.test_refusals import refused
from tests.tiny_model import build_tiny_adapter, build_tiny_model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@pytest.fixture
def adapter(engine: Engine, tmp_path: Path) -> Path:
    """An adapter folder under the engine's adapter root."""
    return new_adapter(engine, tmp_path)


def new_adapter(engine: Engine, tmp_path: Path, seed: int = 1, name: str = "v1") -> Path:
    model = engine.model or build_tiny_model(tmp_path / "model")
    return build_tiny_adapter(engine.adapters / tmp_path.name, model, name, scale=0.3, seed=seed)


def test_an_adapter_is_served_under_its_name_until_it_is_unloaded(engine: Engine, adapter: Path) -> None:
    name = engine.fresh_name()
    refused(engine.post("/v1/completions", completion_body(model=name)), 404)
    loaded = engine.load(name, adapter)
    assert loaded.status_code == 200
    assert name in loaded.text
    assert engine.complete(model=name)["model"] == name
    (card,) = [c for c in engine.http.get("/v1/models").json()["data"] if c["id"] == name]
    assert (card["parent"], card["root"]) == ("base", str(adapter))
    unloaded = engine.unload(name)
    assert unloaded.status_code == 200
    assert name in unloaded.text
    assert name not in engine.served()
    refused(engine.post("/v1/completions", completion_body(model=name)), 404)


def test_the_base_model_says_how_long_its_context_is(engine: Engine) -> None:
    (card,) = [c for c in engine.http.get("/v1/models").json()["data"] if c["parent"] is None]
    assert (card["id"], card["object"], card["max_model_len"]) == ("base", "model", 2048)


def test_a_name_is_loaded_once(engine: Engine, adapter: Path) -> None:
    name = engine.loaded(adapter)
    error = refused(engine.load(name, adapter), 400)
    assert error["type"] == "InvalidUserInput"
    assert "already been loaded" in error["message"]
    assert engine.complete(model=name)["model"] == name


def test_the_base_models_name_is_taken(engine: Engine, adapter: Path) -> None:
    assert refused(engine.load("base", adapter), 400)["type"] == "InvalidUserInput"


def test_a_folder_that_is_not_there_is_not_found(engine: Engine) -> None:
    name = engine.fresh_name()
    error = refused(engine.load(name, engine.adapters / "nowhere"), 404)
    assert error["type"] == "NotFoundError"
    assert name in error["message"]
    assert name not in engine.served()


def test_what_is_not_loaded_cannot_be_unloaded(engine: Engine) -> None:
    assert refused(engine.unload("nobody@v1"), 404)["type"] == "NotFoundError"


def test_a_load_without_a_path_is_refused(engine: Engine) -> None:
    refused(engine.post("/v1/load_lora_adapter", {"lora_name": "x@v1"}), 400)
    refused(engine.post("/v1/load_lora_adapter", {"lora_name": "", "lora_path": ""}), 400)


def test_an_adapter_changes_the_numbers_by_what_its_weights_say(weighted: Engine, tmp_path: Path) -> None:
    assert weighted.model is not None
    folder = new_adapter(weighted, tmp_path)
    (choice,) = weighted.complete(
        model=weighted.loaded(folder), prompt_logprobs=0, logprobs=0, return_token_ids=True
    )["choices"]
    ids = choice["prompt_token_ids"] + choice["token_ids"]
    prompt = choice["prompt_token_ids"]
    got = [r[str(i)]["logprob"] for i, r in zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True)]
    got += choice["logprobs"]["token_logprobs"]
    assert largest_difference(got, teacher_forced(weighted.model, ids, folder)) <= 1e-3
    assert largest_difference(got, teacher_forced(weighted.model, ids)) > 0.1


def _truncated(folder: Path) -> None:
    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[: len(weights) // 2])


def _configured(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**settings, **changes}))

    return change


def _with_first_tensor(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        first = min(tensors)
        save_file({**tensors, first: change(tensors[first])}, folder / WEIGHTS)

    return rewrite


BROKEN = {
    "truncated": _truncated,
    "no weights": lambda folder: (folder / WEIGHTS).unlink(),
    "config cut off": lambda folder: (folder / CONFIG).write_text("{"),
    "rank too large": _configured(r=1024),
    "dora": _configured(use_dora=True),
}
# vLLM takes these without a word: an adapter has to be sound before it is offered to an engine.
UNSOUND = {
    "not finite": _with_first_tensor(lambda tensor: torch.full_like(tensor, float("nan"))),
    "wrong shape": _with_first_tensor(lambda tensor: tensor[:, :-1].contiguous()),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_adapter_is_refused_and_the_engine_lives(
    weighted: Engine, tmp_path: Path, fault: str
) -> None:
    _refused_and_alive(weighted, tmp_path, BROKEN[fault], (400, 500))


@pytest.mark.parametrize("fault", BROKEN | UNSOUND)
def test_the_embedded_engine_says_that_the_adapter_is_at_fault(
    embedded: Engine, tmp_path: Path, fault: str
) -> None:
    _refused_and_alive(embedded, tmp_path, (BROKEN | UNSOUND)[fault], (400,))


def _refused_and_alive(
    engine: Engine, tmp_path: Path, spoil: Callable[[Path], object], statuses: tuple[int, ...]
) -> None:
    before = engine.complete(logprobs=0, return_token_ids=True)["choices"][0]
    folder = new_adapter(engine, tmp_path)
    spoil(folder)
    name = engine.fresh_name()
    response = engine.load(name, folder)
    assert response.status_code in statuses
    refused(response, response.status_code)
    assert name not in engine.served()
    refused(engine.post("/v1/completions", completion_body(model=name)), 404)
    after = engine.complete(logprobs=0, return_token_ids=True)["choices"][0]
    assert after["token_ids"] == before["token_ids"]
    # The same folder mended and offered again is as welcome as any other.
    mended = new_adapter(engine, tmp_path, name="mended")
    assert engine.load(name, mended).status_code == 200
