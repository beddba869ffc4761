"""Another base model, tokenizer or template than turns and adapters were made with: all of it waits."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.exported import export_tiny, zipped
from tests.tiny_model import build_tiny_model

from afterturn_cli.doctor import examine
from afterturn_core.base_model import model_hash
from afterturn_core.models import Round
from afterturn_trainer.run import run_round

from .test_admin import judged

HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two base models of the same shape."""
    folder = tmp_path_factory.mktemp("models")
    return build_tiny_model(folder / "old", seed=1), build_tiny_model(folder / "new", seed=2)


def change_template(folder):
    file = folder / "chat_template.jinja"
    file.write_text(file.read_text() + " ")


def change_tokenizer(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["merges"].pop()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def change_weights(folder):
    """A fine-tune: every weight a little different, every shape the same."""
    (file,) = folder.glob("*.safetensors")
    tensors = {name: tensor * 1.001 for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("change", [change_template, change_tokenizer, change_weights])
def test_the_hash_tells_models_tokenizers_and_templates_apart(models, tmp_path, change):
    shutil.copytree(models[0], tmp_path / "copy")
    assert model_hash(str(tmp_path / "copy")) == model_hash(str(models[0]))
    change(tmp_path / "copy")
    assert model_hash(str(tmp_path / "copy")) != model_hash(str(models[0]))


def test_a_damaged_weights_file_still_has_a_hash(tmp_path):
    for content in (b"", b"\x02\0\0\0\0\0\0\0[]", b"\xff" * 16, b"\x40\0\0\0\0\0\0\0" + b"{" * 64):
        (tmp_path / "model.safetensors").write_bytes(content)
        assert len(model_hash(str(tmp_path))) == 16


def adapters_check(stack):
    (check,) = [check for check in examine(stack.settings) if check.name == "adapters"]
    return check


def ask(stack):
    with stack.client() as client:
        answer = client.post("/v1/chat/completions", json={"model": "default", "messages": HI})
    return answer.status_code, answer.headers["x-adapter"]


def ready(stack):
    with stack.client() as client:
        return client.get("/readyz").json()["adapters"]


def test_what_another_base_model_learned_waits_until_it_is_back(start, models, tmp_path):
    old, new = map(str, models)
    with start(model=old) as stack:
        exported = zipped(export_tiny(tmp_path / "elsewhere", models[0]))
        headers = {"Content-Type": "application/zip"}
        made = stack.admin("POST", "adapters", params={"agent": "default"}, content=exported, headers=headers)
        assert made.status_code == 201
        assert stack.admin("POST", "adapters/default@v1/promote").status_code == 200
        assert ask(stack) == (200, "default@v1")
        assert ready(stack) == {"ok": True, "of_another_base": 0}
        assert adapters_check(stack).level == "ok"
        waiting = judged(stack, 2)

    with start(model=new) as stack:
        # Served by the base model, and said so.
        assert ask(stack) == (200, "base")
        assert stack.engine.loads == []
        assert ready(stack) == {"ok": False, "of_another_base": 1}
        told = adapters_check(stack)
        assert told.level == "broken"
        for word in (
            "default@v1",
            "AFTERTURN_MODEL",
            "`afterturn adapters rollback default --to 0`",
            "2 judged",
        ):
            assert word in told.text
        with stack.client() as client:
            body = {"model": "default@v1", "messages": HI}
            assert client.post("/v1/chat/completions", json=body).status_code == 404
        # Neither made live nor trained.
        for path, body in (
            ("adapters/default@v1/promote", None),
            ("agents/default/rollback", {"to": 1}),
            ("rounds", {"agent": "default"}),
        ):
            refused = stack.admin("POST", path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_base_model"), path
        # Beginning anew on this model uses what it sampled itself.
        assert stack.admin("POST", "agents/default/rollback", json={"to": 0}).status_code == 200
        assert stack.admin("POST", "rounds", json={"agent": "default"}).status_code == 409
        assert adapters_check(stack).level == "note"
        fresh = judged(stack, 1)
        round_ = stack.admin("POST", "rounds", json={"agent": "default"}).json()
        assert round_["turn_ids"] == fresh
        assert stack.admin("POST", f"rounds/{round_['id']}/cancel").status_code == 202

    with start(model=old) as stack:
        # As it was.
        assert stack.admin("POST", "adapters/default@v1/promote").status_code == 200
        assert ask(stack) == (200, "default@v1")
        assert ready(stack) == {"ok": True, "of_another_base": 0}
        round_ = stack.admin("POST", "rounds", json={"agent": "default"}).json()
        assert sorted(round_["turn_ids"]) == sorted(waiting)


def test_a_trainer_with_another_model_than_the_engine_trains_nothing(start, models):
    with start(model=str(models[0])) as stack:
        turns = judged(stack, 2)
        round_id = stack.admin("POST", "rounds", json={"agent": "default"}).json()["id"]
        torch.set_num_threads(1)
        elsewhere = stack.settings.model_copy(update={"model": str(models[1]), "trainer_threads": 1})
        assert run_round(round_id, elsewhere) == 1
        with stack.database.read() as session:
            row = session.get_one(Round, round_id)
            assert (row.state, "another base model" in (row.error or "")) == ("failed", True)
        assert [stack.turn(turn_id)["state"] for turn_id in turns] == ["judged"] * 2
        assert stack.admin("GET", "adapters").json()["data"] == []
