"""`GET /v1/openapi.json`: what can be sent to the routes that agents use."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from .answers import Json, JsonResponse
from .chat_request import ChatRequest
from .completions.request import CompletionRequest
from .feedback import Event
from .messages.request import MessagesRequest, PromptRequest
from .responses.request import ResponsesRequest

PATH = "/v1/openapi.json"
_REF = "#/components/schemas/{model}"


@dataclass(frozen=True)
class _Operation:
    """One route; `{name}` in its path is a parameter."""

    method: str
    path: str
    summary: str
    body: type[BaseModel] | None = None
    query: Sequence[str] = ()


_OPERATIONS = (
    _Operation("post", "/v1/chat/completions", "Chat, as OpenAI", ChatRequest),
    _Operation("post", "/v1/completions", "Continue a text, as OpenAI", CompletionRequest),
    _Operation("post", "/v1/responses", "Respond, as OpenAI", ResponsesRequest),
    _Operation("get", "/v1/responses/{response_id}", "An earlier response"),
    _Operation("delete", "/v1/responses/{response_id}", "Erase an earlier response"),
    _Operation("post", "/v1/messages", "Chat, as Anthropic", MessagesRequest),
    _Operation("post", "/v1/messages/count_tokens", "How long a prompt is, as Anthropic", PromptRequest),
    _Operation("get", "/v1/models", "What can be asked for"),
    _Operation("get", "/v1/models/{model}", "One of them"),
    _Operation("post", "/v1/feedback", "Say what a turn was worth", Event),
    _Operation("get", "/v1/feedback/{feedback_id}", "What was said"),
    _Operation("delete", "/v1/feedback/{feedback_id}", "Take it back"),
    _Operation("get", "/v1/turns/{turn_id}", "A turn"),
    _Operation("delete", "/v1/turns/{turn_id}", "Erase a turn, and all that goes on from it"),
    _Operation("get", "/v1/sessions", "Sessions, newest first", query=("after", "limit")),
    _Operation("post", "/v1/sessions/{session_id}/end", "Close a session"),
    _Operation("delete", "/v1/sessions/{session_id}", "Erase a session"),
)


def document() -> Json:
    """The OpenAPI document, made of what the routes themselves check."""
    bodies = list(dict.fromkeys(operation.body for operation in _OPERATIONS if operation.body))
    _, schemas = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF)
    paths: Json = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Afterturn", "version": version("afterturn-platform")},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _described(operation: _Operation) -> Json:
    described: Json = {
        "summary": operation.summary,
        "parameters": [
            *(_parameter(name, "path") for name in _names(operation.path)),
            *(_parameter(name, "query") for name in operation.query),
        ],
        "responses": {
            "200": {"description": "Done"},
            "default": {"description": "An error in the protocol's own shape"},
        },
    }
    if operation.body is not None:
        schema = {"$ref": _REF.format(model=operation.body.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _parameter(name: str, place: str) -> Json:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


def _names(path: str) -> Sequence[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


async def show(_request: Request) -> Response:
    """The document; it says nothing about this install, so it needs no key."""
    return JsonResponse(document())
