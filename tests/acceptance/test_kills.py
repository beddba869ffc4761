"""Nothing acknowledged is lost, nothing is trained twice: a short run of `bench.kills`."""

import os
from pathlib import Path

import pytest
from bench.kills.run import Plan, run
from tests.databases import KINDS, SERVER

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("kind", KINDS)
def test_eight_kills_under_traffic_lose_nothing(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """B32: every process at random, PostgreSQL's postmaster too."""
    if kind == "postgresql" and not os.environ.get(SERVER):
        # The server that is killed is this test's own; the variable only says that there is PostgreSQL here.
        pytest.skip(f"{SERVER} is not set")
    plan = Plan(
        model=tiny_model,
        folder=tmp_path,
        postgresql=kind == "postgresql",
        kills=8,
        seed=4,
        let_publish_s=0.0,
        between_s=(0.5, 2.0),
    )
    outcome = run(plan, print)
    assert outcome.violations == []
    assert sum(outcome.kills.values()) == 8
    assert outcome.acknowledged_turns > 0
