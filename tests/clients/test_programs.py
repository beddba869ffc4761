"""Agent libraries against the gateway, where `AFTERTURN_CLIENTS_DIR` has them (`bench/clients/setup.sh`)."""

import os
from pathlib import Path

import pytest
from bench.clients.__main__ import run
from bench.clients.programs import PROGRAMS

QUICK = [one for one in PROGRAMS if one.folder == "sdk"]


@pytest.mark.acceptance
@pytest.mark.parametrize("program", QUICK, ids=lambda program: program.name)
def test_every_turn_ends_up_where_it_belongs(program, tmp_path):
    root = os.environ.get("AFTERTURN_CLIENTS_DIR")
    if root is None or program.version(Path(root)) is None:
        pytest.skip("AFTERTURN_CLIENTS_DIR has no such program")
    result = run([program], Path(root), tmp_path)[program.name]
    assert result.faults == ()
    assert result.works
    assert result.linked == result.mains == 12
