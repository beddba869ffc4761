"""Verdict counts out of the gateway's figures."""

from collections.abc import Iterable
from dataclasses import dataclass

from afterturn import AgentStats


@dataclass(frozen=True)
class Verdicts:
    """How many signals said what; `none` had hints at most."""

    good: int = 0
    neutral: int = 0
    bad: int = 0
    none: int = 0

    @property
    def decided(self) -> int:
        """How many were +1 or -1."""
        return self.good + self.bad


def verdicts(agents: Iterable[AgentStats]) -> Verdicts:
    """All these agents' verdicts together."""
    signals = [agent.signals for agent in agents]

    def count(name: str) -> int:
        return sum(each.get(name, 0) for each in signals)

    return Verdicts(count("+1"), count("0"), count("-1"), count("none"))
