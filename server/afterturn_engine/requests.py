"""What clients send, in vLLM's dialect. Unknown fields are accepted and ignored, as there."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

Object = dict[str, JsonValue]
TokenId = Annotated[int, Field(ge=0)]
Stop = str | list[str] | None
_INT64 = 2**63


class Wire(BaseModel):
    model_config = ConfigDict(extra="ignore")


class StreamOptions(Wire):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class JsonSchema(Wire):
    name: str | None = None
    # `schema` is a method of pydantic's own.
    schema_: Object | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Wire):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(Wire):
    """One of these; the others change how JSON is written."""

    json_: str | Object | None = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None

    @property
    def kinds(self) -> list[str]:
        """Which of the kinds are given, by their names on the wire."""
        given = {
            "json": self.json_,
            "regex": self.regex,
            "choice": self.choice,
            "grammar": self.grammar,
            "json_object": self.json_object,
        }
        return [name for name, value in given.items() if value is not None]


class SamplingRequest(Wire):
    """What chat and completions share."""

    model: str | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    n: int | None = 1
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Stop = None
    stop_token_ids: list[int] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    min_tokens: int | None = 0
    ignore_eos: bool | None = False
    include_stop_str_in_output: bool | None = False
    skip_special_tokens: bool | None = True
    prompt_logprobs: int | None = None
    return_token_ids: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: str | Object | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    request_id: str | None = None


class ContentPart(Wire):
    type: str
    text: str | None = None


class FunctionCall(Wire):
    name: str
    arguments: str | Object | None = None


class ToolCall(Wire):
    id: str | None = None
    function: FunctionCall


class Message(Wire):
    role: str
    content: str | list[ContentPart | str] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Function(Wire):
    name: str
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class Tool(Wire):
    type: Literal["function"] = "function"
    function: Function


class NamedFunction(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function"] = "function"
    function: NamedFunction


class ChatPrompt(Wire):
    """What decides the rendered prompt of a chat."""

    messages: list[Message]
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    chat_template: str | None = None
    chat_template_kwargs: Object | None = None
    reasoning_effort: str | None = None
    tools: list[Tool] | None = None

    @field_validator("tools", mode="before")
    @classmethod
    def _only_functions(cls, value: object) -> object:
        """Other kinds of tools (web search, namespaces) mean nothing to a local model."""
        if not isinstance(value, list) or not value:
            return value
        known = [t for t in value if not isinstance(t, dict) or t.get("type", "function") == "function"]
        return known or None


class ChatRequest(ChatPrompt, SamplingRequest):
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = True
    include_reasoning: bool = True
    echo: bool | None = False
    return_prompt_text: bool | None = None


class CompletionRequest(SamplingRequest):
    prompt: list[TokenId] | list[list[TokenId]] | str | list[str] | None = None
    add_special_tokens: bool = True
    echo: bool | None = False
    logprobs: int | None = None
    max_tokens: int | None = 16

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("max_tokens", 0) is None:
            return {key: value for key, value in data.items() if key != "max_tokens"}
        return data


class TokenizeRequest(Wire):
    """Either `prompt` or `messages`."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool | None = None
    chat_template_kwargs: Object | None = None
    tools: list[Tool] | None = None
    return_token_strs: bool | None = False


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: list[TokenId]


class LoadAdapterRequest(Wire):
    lora_name: str
    lora_path: str
    load_inplace: bool = False


class UnloadAdapterRequest(Wire):
    lora_name: str
