"""Requests of vLLM's HTTP dialect, as far as the scripted engine reads them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

Json = dict[str, JsonValue]


class _Request(BaseModel):
    # vLLM takes fields it does not know without complaint.
    model_config = ConfigDict(extra="ignore", frozen=True)


class StreamOptions(_Request):
    include_usage: bool = False


class Sampling(_Request):
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    return_token_ids: bool | None = None
    return_prompt_text: bool | None = None
    prompt_logprobs: int | None = None

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class Message(_Request):
    role: str
    content: str | list[Json | str] | None = None
    tool_calls: list[Json] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Parts of a content list joined by a newline, as vLLM does for text-only models."""
        if isinstance(self.content, str):
            return self.content
        parts = self.content or ()
        return "\n".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)


class ChatRequest(Sampling):
    messages: list[Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Json] | None = None
    tool_choice: Literal["none", "auto", "required"] | Json | None = None
    parallel_tool_calls: bool | None = True
    include_reasoning: bool = True

    @property
    def token_limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class CompletionRequest(Sampling):
    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: int | None = 16
    logprobs: int | None = None
    echo: bool = False

    @property
    def token_limit(self) -> int:
        return 16 if self.max_tokens is None else self.max_tokens


class LoadAdapter(_Request):
    lora_name: str
    lora_path: str


class UnloadAdapter(_Request):
    lora_name: str
