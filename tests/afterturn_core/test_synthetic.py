import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn_core.synthetic import is_synthetic, strip_envelope

INJECTED = [
    ("[OpenClaw heartbeat poll]", "openclaw_heartbeat"),
    ("[Mon 2026-11-30 15:33 UTC] [OpenClaw heartbeat poll]", "openclaw_heartbeat"),
    ("Follow the heartbeat monitor scratch file and report.", "openclaw_heartbeat"),
    ("Pre-compaction memory flush: write what matters.", "openclaw_memory_flush"),
    ("[Queued user message from a previous active turn] buy milk", "openclaw_requeued"),
    ("The conversation history before this point was compacted into this summary:", "compaction_notice"),
    ("[CONTEXT COMPACTION — REFERENCE ONLY] earlier turns", "compaction_notice"),
    ("Another language model started to solve this problem", "compaction_notice"),
    ("CRITICAL: Respond with TEXT ONLY. Do not call tools.", "compaction_request"),
    ("Review the conversation above and decide what to remember.", "hermes_review"),
    ("[System: The previous response was cut off by a network error]", "hermes_system"),
    ("What did we do so far?", "opencode_summary"),
    ("Continue if you have next steps, or stop and ask.", "opencode_continue"),
    ("I didn't see any properly formatted edits in your reply?!", "aider_edit_error"),
    ("Tool call error: no call found", "mini_tool_error"),
    ("Observation:\nthe page says 42", "smolagents_observation"),
    ("Error:\nbad call\nNow let's retry: take care not to repeat previous errors!", "smolagents_error"),
    ("<system-reminder>The date has changed.</system-reminder>", "injected_context"),
    ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> cron", "injected_context"),
]

WRITTEN = [
    "",
    "That is too long, what did we do so far?",
    "Could you review the conversation above and shorten it?",
    "The system: is it running?",
    "I got a tool call error, why?",
    "Error: it still fails",
    "[1] is the wrong citation",
    "<system-reminder>be kind</system-reminder>No, use metric units.",
    "Der Herzschlag-Monitor geht nicht",
]


@pytest.mark.parametrize(("text", "name"), INJECTED)
def test_injected_text_is_named(text: str, name: str) -> None:
    assert is_synthetic(text) == name
    assert is_synthetic(f"  {text}\n") == name


@pytest.mark.parametrize("text", WRITTEN)
def test_a_persons_text_is_not_synthetic(text: str) -> None:
    assert is_synthetic(text) is None


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("[Mon 2026-11-30 15:33 UTC] too long", "too long"),
        ("[Sun 2026-11-29 05:03 Europe/Berlin] too long", "too long"),
        ("too long<system-reminder>a\nb</system-reminder>", "too long"),
        ("<system-reminder>a</system-reminder>no<system-reminder>b</system-reminder>", "no"),
        (
            "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nx\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nthanks",
            "thanks",
        ),
        ("Runtime: agent=main | sessionId=s1\nhello", "hello"),
        ('"say it shorter"', "say it shorter"),
        ('"yes" and "no"', '"yes" and "no"'),
        ("[2026-11-30 15:33] ERROR in the log", "[2026-11-30 15:33] ERROR in the log"),
        ("plain", "plain"),
        ("[Mon 2026-11-30 15:33 UTC] Continue the current task from the existing transcript, please.", ""),
        ("New task:\nsay it shorter", "say it shorter"),
        (
            "[Queued user message from a previous active turn; go on below.]\nno\n\n"
            "Continue the current task from the existing transcript, please.",
            "no",
        ),
        ("shorter\n\nTo suggest changes to a file you MUST return all of it.\nRules.", "shorter"),
    ],
)
def test_the_envelope_is_removed(text: str, inner: str) -> None:
    assert strip_envelope(text) == inner


@given(st.text(max_size=200))
def test_a_persons_text_survives_a_time_stamp(text: str) -> None:
    assert strip_envelope("[Mon 2026-11-30 15:33 UTC] " + text) == strip_envelope(text)


def test_many_unclosed_marks_cost_linear_time() -> None:
    assert strip_envelope("a" + "<system-reminder>" * 100_000) == "a"


def test_case_and_spacing_do_not_matter() -> None:
    assert is_synthetic("REVIEW  the conversation\nabove and save") == "hermes_review"
