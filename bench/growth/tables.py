"""The tables that are filled, whose rows are in them, and of which model."""

from dataclasses import dataclass
from typing import Any

from afterturn_core import models

MODEL_HASH = "0" * 16
# Those that others point to first.
TABLES = (
    models.Conversation,
    models.Content,
    models.HistoryNode,
    models.Turn,
    models.NextState,
    models.Signal,
    models.Round,
    models.RoundTurn,
    models.Training,
    models.Adapter,
)
Rows = dict[str, list[dict[str, Any]]]  # by table


@dataclass(frozen=True)
class Owner:
    """An agent and its key, by id."""

    agent_id: str
    key_id: str
    name: str
