"""The rows that the judge and the trainer would have written for an agent's turns."""

import secrets
from datetime import datetime, timedelta
from typing import Any

from afterturn_core.ids import id_at
from bench.growth.tables import MODEL_HASH, Owner, Rows

ROUND_OF = 16


class Learning:
    """One agent's way from turn to turn: most are trained, some never will be."""

    def __init__(self, owner: Owner) -> None:
        self.version = 0
        self.adapter_id: str | None = None
        self.waiting: list[tuple[str, str]] = []  # turn and signal, for a round that is not full
        self._round_id = ""
        self._owner = owner

    @property
    def adapter(self) -> str:
        """The name that answers now."""
        return f"{self._owner.name}@v{self.version}" if self.version else "base"

    def go_on(
        self, rows: Rows, row: dict[str, Any], following: dict[str, Any] | None, at: datetime, chance: float
    ) -> None:
        """The next state, the signal and the round of a turn that `following` came after; `chance`, from 0 to
        1, decides what becomes of it."""
        row |= {
            "state": "open",
            "excluded_reason": None,
            "signal_revision": 0,
            "round_id": None,
            "observed_at": None,
            "judged_at": None,
        }
        if following is None:
            return
        seen, judged = at + timedelta(seconds=30), at + timedelta(seconds=31)
        rows["next_states"].append(
            {
                "id": id_at("next", seen),
                "turn_id": row["id"],
                "source_id": id_at("turn", seen),
                "position": 0,
                "role": following["role"],
                "text": following["content"],
                "believed": True,
                "withdrawn": False,
                "kind": None,
                "value": None,
                "created_at": seen,
            }
        )
        if chance < 0.05:
            row |= {"kind": "side", "kind_reason": "no_tools", "state": "excluded", "excluded_reason": "side"}
            return
        verdict = None if chance < 0.5 else -1 if chance < 0.7 else 1
        signal_id = id_at("signal", judged)
        rows["signals"].append(
            {
                "id": signal_id,
                "agent_id": row["agent_id"],
                "turn_id": row["id"],
                "revision": 1,
                "verdict": verdict,
                "source": "rules",
                "votes": [verdict],
                "flags": [],
                "rationale": "the user went on" if verdict is None else "the user said so",
                "hints": [],
                "disagreement": False,
                "created_at": judged,
            }
        )
        row |= {
            "state": "abstained" if verdict is None else "judged",
            "signal_revision": 1,
            "observed_at": seen,
            "judged_at": seen,
        }
        if verdict is not None and not row["held_out"]:
            self._train(rows, row, signal_id, judged)

    def _train(self, rows: Rows, row: dict[str, Any], signal_id: str, at: datetime) -> None:
        if not self.waiting:
            self._round_id = id_at("round", at)
        self.waiting.append((row["id"], signal_id))
        row |= {"state": "trained", "round_id": self._round_id}
        if len(self.waiting) < ROUND_OF:
            return
        self.version += 1
        round_id, adapter_id = self._round_id, id_at("adapter", at)
        rows["rounds"].append(
            {
                "id": round_id,
                "agent_id": self._owner.agent_id,
                "state": "published",
                "objective": "hybrid",
                "parent_adapter_id": self.adapter_id,
                "adapter_id": adapter_id,
                "turn_ids": [turn for turn, _ in self.waiting],
                "settings": {"seed": 0},
                "metrics": {"loss": [0.5] * 8, "kl": 0.01, "reward_mean": 0.2, "tokens": 4096},
                "gate": {"passed": True, "reasons": []},
                "progress": 1.0,
                "error": None,
                "cancel_requested": False,
                "fence": 1,
                "lease_owner": "bench",
                "lease_expires_at": at,
                "created_at": at,
                "started_at": at,
                "finished_at": at,
            }
        )
        rows["adapters"].append(
            {
                "id": adapter_id,
                "agent_id": self._owner.agent_id,
                "version": self.version,
                "name": f"{self._owner.name}@v{self.version}",
                "parent_id": self.adapter_id,
                "round_id": round_id,
                "state": "retired",
                "marks": [],
                "sha256": secrets.token_hex(32),
                "model_hash": MODEL_HASH,
                "path": None,
                "gate": {"passed": True, "reasons": []},
                "created_at": at,
            }
        )
        for turn, signal in self.waiting:
            rows["round_turns"].append({"round_id": round_id, "turn_id": turn, "signal_id": signal})
            rows["trainings"].append({"signal_id": signal, "round_id": round_id, "turn_id": turn})
        self.adapter_id, self.waiting = adapter_id, []
