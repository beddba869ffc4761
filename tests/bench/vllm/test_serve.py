"""Starting vLLM where it cannot start."""

from pathlib import Path

import pytest
from bench.vllm.serve import ServeError, command, serving


def test_without_an_environment_it_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_VENV", str(tmp_path / "none"))
    with pytest.raises(ServeError, match=r"bench/vllm/setup\.sh"), serving(tmp_path, tmp_path / "log"):
        pass


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'no such model'\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setenv("VLLM_VENV", str(tmp_path))
    with pytest.raises(ServeError, match="ended with 3:\nno such model"), serving(tmp_path, tmp_path / "log"):
        pass


def test_logprobs_are_raw_and_adapters_allowed() -> None:
    line = command(Path("model"), 8000, 2048)
    assert line[line.index("--logprobs-mode") + 1] == "raw_logprobs"
    assert "--enable-lora" in line
    assert line[line.index("--max-model-len") + 1] == "2048"


def test_running_requests_are_counted_only_where_that_is_asked_for() -> None:
    assert "--disable-log-stats" in command(Path("model"), 8000, None)
    assert "--disable-log-stats" not in command(Path("model"), 8000, None, counted=True)
