"""Whether a turn belongs to the conversation, or is an errand that the client runs for itself."""

from sqlmodel import Session, col, select

from afterturn_core.models import Turn
from afterturn_core.synthetic import is_errand, is_synthetic

from .linking import History
from .turn_options import TurnOptions

# Tasks that a client gives by itself in the user's place. Other synthetic texts (tool observations,
# format errors, notices) belong to the main loop: they are no reaction, but the turn they ask for counts.
SIDE_PATTERNS = frozenset(
    {
        "openclaw_heartbeat",
        "openclaw_memory_flush",
        "compaction_request",
        "hermes_review",
        "opencode_summary",
        "aider_summary",
        "claude_local_command",
        "smolagents_final",
        "title_request",
        "probe",
    }
)


def kind_of(
    session: Session,
    session_id: str | None,
    history: History,
    options: TurnOptions,
    *,
    parent: Turn | None,
    has_tools: bool,
) -> tuple[str, str]:
    """`main` or `side`, and the rule that said so; what the client says itself goes first.

    Missing tools say nothing where the conversation has none: another of the same session may have some.
    """
    if options.kind is not None:
        return options.kind, "header"
    pattern = is_synthetic(history.last_user_text)
    if pattern not in SIDE_PATTERNS:
        pattern = is_errand(history.instructions)
    if pattern is not None:
        return "side", f"pattern:{pattern}"
    toolless = parent is not None and parent.kind == "main" and parent.tools_digest is None
    if not has_tools and not toolless and session_id is not None and _has_tools(session, session_id):
        return "side", "no_tools"
    return "main", "default"


def _has_tools(session: Session, session_id: str) -> bool:
    statement = (
        select(Turn.id)
        .where(Turn.session_id == session_id, Turn.kind == "main", col(Turn.tools_digest).is_not(None))
        .limit(1)
    )
    return session.exec(statement).first() is not None
