"""What a process in a container waits for before it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.waiting import wait_until

from afterturn_cli.container import main
from afterturn_core.database import Database

PATIENCE_S = 120.0


def test_a_worker_waits_for_the_schema_and_then_becomes_the_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'afterturn.db'}"
    output = tmp_path / "output"
    environment = {**os.environ, "AFTERTURN_DATABASE_URL": url, "AFTERTURN_BROKER_URL": ""}
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "afterturn_cli.container", "extractor"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(
            lambda: "run `afterturn migrate`" in output.read_text() or process.poll() is not None,
            "it waits for the schema",
            patience_s=PATIENCE_S,
        )
        assert process.poll() is None, output.read_text()
        database = Database(url)
        database.migrate()
        database.close()
        # The extractor itself then says what it lacks.
        assert process.wait(PATIENCE_S) == 2
        assert "AFTERTURN_BROKER_URL is empty" in output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["--help"]])
def test_no_process_or_one_that_is_none_is_wrong_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage:" in capsys.readouterr().err
