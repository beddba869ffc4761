"""Chat completions: a rendered prompt in, messages and chunks in vLLM's shapes out."""

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

from afterturn_engine import admission, constraint
from afterturn_engine.engine import LOWEST_LOGPROB, Engine, collect, request_id
from afterturn_engine.errors import InvalidRequest, Malformed
from afterturn_engine.generation import Generation
from afterturn_engine.reasoning import OPEN_THOUGHT, ReasoningText
from afterturn_engine.reply_text import ReplyText
from afterturn_engine.requests import ChatRequest, NamedTool
from afterturn_engine.responses import (
    ChatChoice,
    ChatLogprobs,
    ChatMessage,
    ChatResponse,
    FunctionCall,
    TokenLogprob,
    ToolCall,
    ToolMessage,
    TopLogprob,
    Usage,
)
from afterturn_engine.sequence import Delta, Scores
from afterturn_engine.template import Template
from afterturn_engine.tool_calls import ToolCallText


@dataclass(frozen=True)
class Chat:
    """An accepted chat request whose generation has been queued."""

    engine: Engine
    asked: ChatRequest
    id: str
    model_name: str
    prompt: str
    prompt_ids: list[int]
    choices: int
    generation: Generation

    @property
    def role(self) -> str:
        return "assistant" if self.asked.add_generation_prompt else self.asked.messages[-1].role

    def reader(self) -> ReplyText:
        """Reads thoughts and calls out of a reply, where the model thinks and the request offered tools."""
        thoughts = ReasoningText(_in_thought(self.prompt)) if self.engine.template.thinks else None
        calls = None
        if self.asked.tools and self.asked.tool_choice != "none":
            calls = ToolCallText(self.asked.parallel_tool_calls is False)
        return ReplyText(thoughts, calls)

    def finish_reason(self, delta: Delta, reader: ReplyText) -> str | None:
        """`tool_calls` for a complete reply that holds some; `stop` for a named tool, as in OpenAI's API."""
        named = isinstance(self.asked.tool_choice, NamedTool)
        if reader.called and delta.finish_reason == "stop" and not named:
            return "tool_calls"
        return delta.finish_reason

    def forced(self, delta: Delta) -> list[bool] | None:
        """Beside the ids of a reply that follows a grammar: which of them the grammar chose (not vLLM's)."""
        return list(delta.forced) if self.asked.return_token_ids and delta.forced else None

    def logprobs(self, delta: Delta, before: Items[int]) -> ChatLogprobs | None:
        """`before` are the reply's ids in front of the delta's."""
        if not self.asked.logprobs:
            return None
        ids = [*before, *delta.token_ids]
        first = len(before)
        return ChatLogprobs(
            content=[
                self._token(scores, ids[: first + place][-4:]) for place, scores in enumerate(delta.scores)
            ]
        )

    def _token(self, scores: Scores, before: Items[int]) -> TokenLogprob:
        listed = [self._top(score.token_id, score.logprob, before) for score in scores]
        own = listed[0]
        return TokenLogprob(
            token=own.token,
            logprob=own.logprob,
            bytes=own.bytes,
            top_logprobs=listed[: self.asked.top_logprobs or 0],
        )

    def _top(self, token_id: int, logprob: float, before: Items[int]) -> TopLogprob:
        text = self.engine.token_text(token_id, before)
        return TopLogprob(token=text, logprob=max(logprob, LOWEST_LOGPROB), bytes=list(text.encode("utf-8")))


async def accept(engine: Engine, asked: ChatRequest) -> Chat:
    """Check, render and queue. Raises InvalidRequest, NotFound or QueueFull before anything is sent."""
    name, adapter = engine.resolve(asked.model)
    _check_tools(asked)
    if asked.top_logprobs and not asked.logprobs:
        raise Malformed("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    offered = asked if asked.tool_choice != "none" else asked.model_copy(update={"tools": None})
    prompt = engine.template.render(offered)
    prompt_ids = engine.template.encode(prompt, asked.add_special_tokens)
    limit, limit_name = asked.max_completion_tokens, "max_completion_tokens"
    if limit is None:
        limit, limit_name = asked.max_tokens, "max_tokens"
    sampling = admission.sampling(
        asked,
        engine.model,
        admission.room_for_reply(len(prompt_ids), limit, engine.model.max_length, limit_name),
        (asked.top_logprobs or 0) if asked.logprobs else None,
        asked.prompt_logprobs,
        await engine.compiled(constraint.of_chat(asked, _manner(engine.template, prompt))),
    )
    if engine.template.control_marks and (engine.template.thinks or asked.tools):
        sampling = replace(sampling, skip_special_tokens=False)
    n = admission.choices(asked)
    generation = Generation(engine.scheduler)
    generation.add(engine.model, prompt_ids, sampling, adapter, n)
    generation.start()
    return Chat(
        engine,
        asked,
        request_id("chatcmpl", asked.request_id),
        name,
        prompt,
        prompt_ids,
        n,
        generation,
    )


async def answer(chat: Chat) -> ChatResponse:
    """The whole answer at once."""
    replies = await collect(chat.generation, chat.choices)
    completion_tokens = sum(len(reply.token_ids) for reply in replies)
    return ChatResponse(
        id=chat.id,
        model=chat.model_name,
        choices=[_choice(chat, index, reply) for index, reply in enumerate(replies)],
        usage=Usage.of(len(chat.prompt_ids), completion_tokens),
        prompt_logprobs=chat.engine.prompt_logprobs(chat.prompt_ids, replies[0].prompt_scores),
        prompt_token_ids=chat.prompt_ids if chat.asked.return_token_ids else None,
        prompt_text=chat.prompt if chat.asked.return_prompt_text else None,
    )


def _choice(chat: Chat, index: int, reply: Delta) -> ChatChoice:
    reader = chat.reader()
    pieces = [reader.feed(reply.text), reader.finish(reply.finish_reason == "stop")]
    text: str | None = "".join(piece.text for piece in pieces)
    reasoning = "".join(piece.reasoning for piece in pieces) if chat.asked.include_reasoning else ""
    calls = [call for piece in pieces for call in piece.calls]
    if calls or reasoning:
        text = text or None
    message = ChatMessage(role=chat.role, content=text, reasoning=reasoning or None)
    if calls:
        listed = [
            ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))
            for call in calls
        ]
        message = ToolMessage(**dict(message), tool_calls=listed)
    return ChatChoice(
        index=index,
        message=message,
        logprobs=chat.logprobs(reply, ()),
        finish_reason=chat.finish_reason(reply, reader) or "stop",
        stop_reason=reply.stop_reason,
        token_ids=list(reply.token_ids) if chat.asked.return_token_ids else None,
        forced_token_mask=chat.forced(reply),
    )


def _manner(template: Template, prompt: str) -> constraint.Manner:
    thinking = template.thinks and _in_thought(prompt)
    return constraint.Manner(template.thinks, thinking, template.control_marks)


def _in_thought(prompt: str) -> bool:
    """Whether the template has opened a thought for the reply to go on with."""
    return prompt.rstrip().endswith(OPEN_THOUGHT)


def _check_tools(asked: ChatRequest) -> None:
    if asked.tools == []:
        raise Malformed(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field.",
            param="tools",
        )
    if asked.tool_choice in (None, "none"):
        return
    if not asked.tools:
        if asked.tool_choice == "auto" and "tools" in asked.model_fields_set:
            return  # all of a kind that means nothing here: the model may do without
        raise Malformed("When using `tool_choice`, `tools` must be set.", param="tool_choice")
    if isinstance(asked.tool_choice, NamedTool):
        names = {tool.function.name for tool in asked.tools}
        if asked.tool_choice.function.name not in names:
            raise InvalidRequest(
                "The tool specified in `tool_choice` does not match any of the specified `tools`",
                param="tool_choice",
            )
