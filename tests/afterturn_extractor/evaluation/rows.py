"""Rows and a judge for tests of the evaluation."""

from afterturn_extractor.evaluation.rows import Row
from afterturn_extractor.evidence import Evidence, Hint, Judgement, Verdict


def row(label: int | None, next_state: str, *, source: str = "a", tier: str = "core", **more: object) -> Row:
    held = {"id": "1", "user_request": None, "assistant": "x", "next_role": "user", "directive": None}
    held |= {"label": label, "next_state": next_state, "source": source, "tier": tier, **more}
    return Row.model_validate(held)


def says(evidence: Evidence) -> Judgement:
    """A judge that reads its verdict from the text: "+", "-", "0", or none; "!" adds a hint; further signs
    are its votes."""
    text = evidence.next_state[0].text
    verdicts: dict[str, Verdict] = {"+": 1, "-": -1, "0": 0}
    hints = (Hint("do", "judge"),) if "!" in text else ()
    votes = tuple(verdicts.get(sign) for sign in text[1:] if sign in "+-0?")
    return Judgement(verdicts.get(text[:1]), "judge", votes, hints=hints)
