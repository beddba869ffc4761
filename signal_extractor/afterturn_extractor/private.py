"""Evidence without secrets and personal data, and whether a turn may be learned from."""

from dataclasses import replace

from afterturn_core.masking import mask, mask_json
from afterturn_extractor.evidence import Evidence, ToolCall


def masked(evidence: Evidence) -> Evidence:
    """The evidence as another's server may see it."""
    request = evidence.user_request
    return replace(
        evidence,
        user_request=None if request is None else mask(request).text,
        context=tuple(replace(message, text=mask(message.text).text) for message in evidence.context),
        reply_text=mask(evidence.reply_text).text,
        reply_tool_calls=tuple(_call(call) for call in evidence.reply_tool_calls),
        next_state=tuple(replace(part, text=mask(part.text).text) for part in evidence.next_state),
    )


def teaches_a_secret(evidence: Evidence) -> bool:
    """Whether what the turn said, or what followed it, holds what is to be kept out of the loss."""
    texts = [evidence.reply_text, *(part.text for part in evidence.next_state)]
    calls = [call for call in evidence.reply_tool_calls if _call(call) != call]
    return bool(calls) or any(mask(text).kinds for text in texts)


def _call(call: ToolCall) -> ToolCall:
    (found, _) = mask_json({"arguments": call.arguments})
    return replace(call, arguments=found["arguments"])
