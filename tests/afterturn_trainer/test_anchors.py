"""Anchors are the base model's own words, asked once."""

from pathlib import Path

import pytest

from afterturn_core.engine_client import EngineClient
from afterturn_trainer.anchors import ANCHORS, load_anchors


def test_anchors_carry_the_engines_ids_and_are_asked_once(scripted: EngineClient, tmp_path: Path) -> None:
    shares: list[float] = []
    first = load_anchors(scripted, "hash", tmp_path, 4, shares.append)
    assert 0 < len(first) <= ANCHORS
    assert shares[-1] == pytest.approx(1.0)
    assert len({anchor.name for anchor in first}) == len(first)
    assert all(anchor.prompt_ids and anchor.reply_ids for anchor in first)
    asked = len(shares)
    assert load_anchors(scripted, "hash", tmp_path, 4, shares.append) == first
    assert len(shares) == asked
    load_anchors(scripted, "another", tmp_path, 4, shares.append)
    assert len(shares) == 2 * asked
