"""A trainer that is killed while it writes an adapter leaves none, or all of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.afterturn_trainer.conftest import Install
from tests.afterturn_trainer.test_adapter_folder import write

from afterturn_core.adapter_files import CONFIG, MANIFEST, WEIGHTS
from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import AdapterError, EngineError
from afterturn_trainer.adapter_folder import (
    MOMENTS,
    clear_drafts,
    moments_in,
    verify,
)

ORDER = (CONFIG, WEIGHTS, MOMENTS, MANIFEST)

# Writes the same adapter again and again, each time in a process that kills itself one step later: a step is
# anything Python does to the file system.
DIE_LATER_AND_LATER = """
import os, signal, sys
from pathlib import Path
import torch
from transformers import AutoModelForCausalLM
from afterturn_trainer.adapter_folder import write_adapter
from afterturn_trainer.lora import attach
from afterturn_trainer.moments import Moments
from afterturn_trainer.settings import LearningSettings

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.listdir", "os.scandir")
root, model = Path(sys.argv[1]), sys.argv[2]
policy = attach(AutoModelForCausalLM.from_pretrained(model), LearningSettings(lora_rank=4))
moments = [{name: torch.zeros_like(weight) for name, weight in policy.trainable().items()} for _ in range(2)]
about = dict(name="agent@v1", parent=None, model_hash="h", round_id="r")

def write(folder):
    write_adapter(folder, policy, Moments(1, *moments), **about)

write(root / "whole" / "agent" / "v1")
step = 0
while True:
    child = os.fork()
    if child == 0:
        left = [step]
        def hook(event, arguments):
            if event in STEPS and str(root) in str(arguments[0]):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
        sys.addaudithook(hook)
        write(root / str(step) / "agent" / "v1")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    step += 1
"""


@pytest.fixture(scope="module")
def attempts(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Adapter roots, each as a kill one step later left it; the last one is complete."""
    root = tmp_path_factory.mktemp("attempts")
    subprocess.run(
        (sys.executable, "-c", DIE_LATER_AND_LATER, str(root), str(tiny_folder)),
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
    )
    return sorted((path for path in root.iterdir() if path.name != "whole"), key=lambda path: int(path.name))


def test_a_kill_at_any_step_leaves_no_folder_or_all_of_it(attempts: list[Path]) -> None:
    assert len(attempts) > 15
    complete = []
    for root in attempts:
        folder = root / "agent" / "v1"
        if folder.exists():
            verify(folder)
            assert {path.name for path in folder.iterdir()} == set(ORDER)
            complete.append(root)
    # Killed before the rename nothing is there; the steps after it find everything.
    assert complete == attempts[-len(complete) :]
    assert 1 <= len(complete) < len(attempts) / 2


def test_what_such_a_kill_left_is_never_loaded(attempts: list[Path], install: Install) -> None:
    """Neither the folder's name nor the draft's is anything an engine takes, and the next round clears it."""
    with EngineClient(install.engine_url) as engine:
        for number, left in enumerate(attempts):
            agent = f"killed{number}"
            root = install.data_dir / "adapters"
            if not (left / "agent").is_dir():
                continue  # killed before its first step
            shutil.copytree(left / "agent", root / agent)
            folder = root / agent / "v1"
            for draft in (root / agent).glob(".v1.*.tmp"):
                with pytest.raises((AdapterError, EngineError)):
                    engine.load_adapter(f"{agent}@v1", str(draft))
            if folder.exists():
                engine.load_adapter(f"{agent}@v1", str(folder))
                engine.unload_adapter(f"{agent}@v1")
            else:
                with pytest.raises((AdapterError, EngineError)):
                    engine.load_adapter(f"{agent}@v1", str(folder))
            clear_drafts(root, agent)
            assert {path.name for path in (root / agent).iterdir()} <= {"v1"}


@pytest.mark.parametrize("file", ORDER)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_never_trained_on_or_loaded(
    install: Install, tmp_path: Path, file: str, share: float
) -> None:
    """As a disk that filled up, or a copy that was cut off, leaves a folder under its final name."""
    folder = write(tmp_path)
    path = folder / file
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    if file == MOMENTS:
        with pytest.raises(AdapterError, match="checksum"):
            moments_in(folder)
    else:
        with pytest.raises(AdapterError):
            verify(folder)
    if file in (CONFIG, WEIGHTS):
        agent = f"cut-{tmp_path.name}"
        shutil.copytree(folder.parent, install.data_dir / "adapters" / agent)
        with EngineClient(install.engine_url) as engine, pytest.raises((AdapterError, EngineError)):
            engine.load_adapter(f"{agent}@v1", str(install.data_dir / "adapters" / agent / "v1"))


@pytest.mark.parametrize("kept", range(len(ORDER)))
def test_a_folder_with_only_the_first_files_is_no_adapter(tmp_path: Path, kept: int) -> None:
    folder = write(tmp_path)
    for file in ORDER[kept:]:
        (folder / file).unlink()
    with pytest.raises(AdapterError):
        verify(folder)
