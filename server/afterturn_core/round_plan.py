"""What a new round of an agent shall do: the agent's own wishes over the install's settings."""

from typing import Any

from .lifecycle import RoundPlan
from .models import Agent
from .settings import Settings

SOURCE_SHARE = "max_source_share"  # its name among a round's settings


def plan_round(settings: Settings, agent: Agent) -> RoundPlan:
    """The plan for `lifecycle.claim_round`; its settings are stored with the round."""
    learning: dict[str, Any] = {
        "seed": settings.seed,
        "max_train_tokens": settings.max_train_tokens,
        SOURCE_SHARE: settings.max_source_share,
    }
    if settings.learning_rate is not None:
        learning["learning_rate"] = settings.learning_rate
    return RoundPlan(
        objective=agent.objective or settings.objective,
        max_turns=settings.max_round_turns,
        source_share=settings.max_source_share,
        settings=learning,
    )
