"""`afterturn up` as a person runs it: killed, started again where it stopped, ended with Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dotenv import dotenv_values
from openai import OpenAI
from tests.acceptance.conftest import PATIENCE_S, wait_until
from tests.acceptance.up import running_up

from afterturn import Afterturn
from afterturn_cli.ports import free_ports

pytestmark = pytest.mark.acceptance


def test_up_survives_a_kill_and_ends_with_ctrl_c_leaving_nothing(
    tmp_path: Path, scripted_engine: str
) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    variables = {
        "AFTERTURN_DATA_DIR": str(tmp_path / "data"),
        "AFTERTURN_ENGINE_URL": scripted_engine,
        "AFTERTURN_MODEL": "scripted",
        "AFTERTURN_PORT": str(port),
    }
    with running_up(variables, tmp_path / "first") as first:
        keys = dotenv_values(tmp_path / "data/keys.env")
        with OpenAI(base_url=f"{url}/v1", api_key=keys["AFTERTURN_API_KEY"], max_retries=0) as openai:
            answer = openai.chat.completions.with_raw_response.create(
                model="default", messages=[{"role": "user", "content": "What is a mutex?"}]
            )
        children = first.children()
        assert len(children) == 4
        first.process.kill()
        wait_until(lambda: not any(child.is_running() for child in children), "children of a killed up end")

    with running_up(variables, tmp_path / "second") as second:
        assert dotenv_values(tmp_path / "data/keys.env") == keys
        with Afterturn(url, keys["AFTERTURN_API_KEY"]) as client:
            assert client.turns.get(answer.headers["x-turn-id"]).id == answer.headers["x-turn-id"]
        text = second.screen.read_text()
        assert url in text
        assert str(tmp_path / "data/keys.env") in text
        assert (keys["AFTERTURN_API_KEY"] or "at-") not in text
        children = second.children()
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(PATIENCE_S) == 0
        assert not any(child.is_running() for child in children)


def test_a_model_path_that_is_none_ends_up_with_2_and_a_clear_line(tmp_path: Path) -> None:
    ports = free_ports(2)
    done = subprocess.run(
        [sys.executable, "-m", "afterturn_cli", "up", "--no-dashboard"],
        env={
            **os.environ,
            "AFTERTURN_DATA_DIR": str(tmp_path / "data"),
            "AFTERTURN_MODEL": str(tmp_path / "nothing"),
            "AFTERTURN_PORT": str(ports[0]),
            "AFTERTURN_ENGINE_PORT": str(ports[1]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert str(tmp_path / "nothing") in done.stderr
    assert "Traceback" not in done.stderr
