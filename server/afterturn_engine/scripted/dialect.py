"""Reply bodies and stream chunks of vLLM's dialect, built from generated pieces."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from afterturn_engine.scripted.generation import Generation, Piece, Token
from afterturn_engine.scripted.wire import Json


def event(body: Json) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


DONE = "data: [DONE]\n\n"


def usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


@dataclass(frozen=True)
class Answer:
    """What every chunk of one answer shares; `token_ids` and `logprobs` say whether they were asked for."""

    id: str
    model: str
    prompt_token_ids: tuple[int, ...]
    token_ids: bool
    logprobs: bool
    top: int
    prompt_text: str | None = None
    reasoning: bool = True

    def envelope(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}


def chat_logprobs(tokens: Iterable[Token], top: int) -> Json:
    """OpenAI's chat form; the only alternative this engine knows is the sampled token itself."""
    content: list[Json] = []
    for token in tokens:
        entry: Json = {
            "token": token.text,
            "logprob": token.logprob,
            "bytes": list(token.text.encode()),
        }
        content.append({**entry, "top_logprobs": [dict(entry)] if top else []})
    return {"content": list(content)}


def completion_logprobs(tokens: Iterable[Token], top: int) -> Json:
    """OpenAI's text form: four lists side by side."""
    listed = list(tokens)
    offsets, length = [], 0
    for token in listed:
        offsets.append(length)
        length += len(token.text)
    return {
        "text_offset": list(offsets),
        "token_logprobs": [token.logprob for token in listed],
        "tokens": [token.text for token in listed],
        "top_logprobs": [{token.text: token.logprob} if top else None for token in listed],
    }


def prompt_logprobs(tokens: tuple[Token, ...]) -> list[Json | None]:
    """One record a prompt position, keyed by token id; none for the first, which nothing predicts."""
    records: list[Json | None] = [None]
    for token in tokens[1:]:
        records.append({str(token.id): {"logprob": token.logprob, "rank": 1, "decoded_token": token.text}})
    return records[: len(tokens)]


def chat_message(answer: Answer, generation: Generation) -> Json:
    calls = generation.calls
    content = generation.text("content")
    thoughts = generation.text("reasoning")
    message: Json = {
        "role": "assistant",
        "content": None if (calls or thoughts) and not content else content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": (thoughts or None) if answer.reasoning else None,
    }
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return message


def chat_choice(answer: Answer, index: int, generation: Generation) -> Json:
    tokens = [token for piece in generation.pieces for token in piece.tokens]
    return {
        "index": index,
        "message": chat_message(answer, generation),
        "logprobs": chat_logprobs(tokens, answer.top) if answer.logprobs else None,
        "finish_reason": generation.finish_reason,
        "stop_reason": generation.stop_reason,
        "token_ids": [token.id for token in tokens] if answer.token_ids else None,
        "routed_experts": None,
    }


def chat_body(answer: Answer, generations: tuple[Generation, ...]) -> Json:
    completion_tokens = sum(generation.token_count for generation in generations)
    return {
        **answer.envelope("chat.completion"),
        "choices": [chat_choice(answer, index, g) for index, g in enumerate(generations)],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": usage(len(answer.prompt_token_ids), completion_tokens),
        "prompt_logprobs": None,
        "prompt_token_ids": list(answer.prompt_token_ids) if answer.token_ids else None,
        "prompt_text": answer.prompt_text,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def chat_opening(answer: Answer, index: int) -> Json:
    """The first chunk of a choice: the role, and the prompt's ids if they were asked for."""
    chunk = answer.envelope("chat.completion.chunk")
    chunk["choices"] = [
        {
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    chunk["prompt_token_ids"] = list(answer.prompt_token_ids) if answer.token_ids else None
    chunk["prompt_text"] = answer.prompt_text
    return chunk


def chat_delta(piece: Piece) -> Json:
    if piece.kind == "content":
        return {"content": piece.text}
    if piece.kind == "reasoning":
        return {"reasoning": piece.text}
    if piece.kind == "call":
        call: Json = {
            "index": piece.call,
            "id": piece.call_id,
            "type": "function",
            "function": {"name": piece.text, "arguments": ""},
        }
        return {"tool_calls": [call]}
    if piece.kind == "arguments":
        return {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
    return {}


def _shown_delta(answer: Answer, piece: Piece) -> Json:
    hidden = piece.kind == "reasoning" and not answer.reasoning
    return ({} if hidden else chat_delta(piece)) or {"content": ""}


def chat_chunk(answer: Answer, index: int, piece: Piece, ending: Generation | None) -> Json:
    """The chunk of one piece; `ending` is given with a choice's last piece."""
    choice: Json = {
        "index": index,
        "delta": _shown_delta(answer, piece),
        "logprobs": chat_logprobs(piece.tokens, answer.top) if answer.logprobs else None,
        "finish_reason": ending.finish_reason if ending else None,
    }
    if ending:
        choice["stop_reason"] = ending.stop_reason
    choice["token_ids"] = [token.id for token in piece.tokens] if answer.token_ids else None
    return {**answer.envelope("chat.completion.chunk"), "choices": [choice]}


def usage_chunk(answer: Answer, kind: str, prompt_tokens: int, completion_tokens: int) -> Json:
    """The chunk after the last choice, when `stream_options.include_usage` asks for it."""
    return {
        **answer.envelope(kind),
        "choices": [],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        },
    }


def completion_choice(
    answer: Answer,
    index: int,
    generation: Generation,
    echoed: tuple[Token, ...],
    prompt: list[Json | None] | None,
) -> Json:
    """`echoed`: the prompt's tokens if they are to be repeated; `prompt`: its log-probs if asked for.

    As in vLLM an echoed prompt is not part of the text where ids are asked for.
    """
    shown = () if answer.token_ids else echoed
    tokens = [*echoed, *(token for piece in generation.pieces for token in piece.tokens)]
    return {
        "index": index,
        "text": "".join(token.text for token in shown) + generation.text("content"),
        "logprobs": completion_logprobs(tokens, answer.top) if answer.logprobs else None,
        "finish_reason": generation.finish_reason,
        "stop_reason": generation.stop_reason,
        "token_ids": [t.id for p in generation.pieces for t in p.tokens] if answer.token_ids else None,
        "prompt_logprobs": list(prompt) if prompt is not None else None,
        "prompt_token_ids": list(answer.prompt_token_ids) if answer.token_ids else None,
        "routed_experts": None,
    }


def completion_chunk(
    answer: Answer, index: int, piece: Piece, first: bool, ending: Generation | None
) -> Json:
    """The chunk of one piece; the prompt's ids come with a choice's first."""
    choice: Json = {
        "index": index,
        "text": piece.text if piece.kind == "content" else "",
        "logprobs": completion_logprobs(piece.tokens, answer.top) if answer.logprobs else None,
        "finish_reason": ending.finish_reason if ending else None,
        "stop_reason": ending.stop_reason if ending else None,
    }
    choice["prompt_token_ids"] = list(answer.prompt_token_ids) if first and answer.token_ids else None
    choice["token_ids"] = [token.id for token in piece.tokens] if answer.token_ids else None
    return {**answer.envelope("text_completion"), "choices": [choice]}


def model_card(name: str, root: str, parent: str | None, max_model_len: int | None) -> Json:
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "vllm",
        "root": root,
        "parent": parent,
        "max_model_len": max_model_len,
        "permission": [],
    }
