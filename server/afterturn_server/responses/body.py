"""The response object, whole or at its beginning: pure."""

from dataclasses import dataclass

from ..answers import Json

STATUSES = {"length": "incomplete", "content_filter": "incomplete"}
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True)
class Head:
    """What a response says about itself from the start; `fields` are the request's own, echoed."""

    id: str
    created_at: int
    fields: Json

    @property
    def model(self) -> str:
        """The model as it was asked for."""
        return str(self.fields["model"])

    def body(
        self,
        status: str,
        output: list[Json],
        *,
        usage: Json | None = None,
        finish_reason: str | None = None,
        error: Json | None = None,
    ) -> Json:
        """The object."""
        given = self.fields.get
        reasoning = given("reasoning") or {}
        reason = _REASONS.get(finish_reason or "")
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": None if status != "incomplete" else {"reason": reason},
            "instructions": given("instructions"),
            "max_output_tokens": given("max_output_tokens"),
            "max_tool_calls": given("max_tool_calls"),
            "model": self.model,
            "output": output,
            "parallel_tool_calls": given("parallel_tool_calls") is not False,
            "previous_response_id": given("previous_response_id"),
            "prompt_cache_key": given("prompt_cache_key"),
            "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
            "safety_identifier": given("safety_identifier"),
            "service_tier": "default",
            "store": given("store") is not False,
            "temperature": given("temperature"),
            "text": {"format": {"type": "text"}, **(given("text") or {})},
            "tool_choice": given("tool_choice") or "auto",
            "tools": given("tools") or [],
            "top_logprobs": given("top_logprobs") or 0,
            "top_p": given("top_p"),
            "truncation": "disabled",
            "usage": usage,
            "user": given("user"),
            "metadata": given("metadata") or {},
        }


def usage_of(prompt: int, cached: int, completion: int) -> Json:
    """Tokens read and sampled; those of reasoning are among the sampled ones and not told apart."""
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
    }
