"""The HTTP application: routes, keys and error bodies of the engine."""

import asyncio
import secrets
import time
import uuid
from collections.abc import Sequence
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from afterturn_engine import chat, chat_stream, completions
from afterturn_engine.engine import Engine
from afterturn_engine.errors import EngineError, GenerationFailed, InvalidRequest, Malformed, QueueFull
from afterturn_engine.events import EventStream, error_body, while_connected
from afterturn_engine.requests import (
    ChatPrompt,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    LoadAdapterRequest,
    TokenizeRequest,
    UnloadAdapterRequest,
)
from afterturn_engine.responses import (
    DetokenizeResponse,
    ModelCard,
    ModelList,
    ModelPermission,
    TokenizeResponse,
)

# Nobody reads this: nginx's status for a client that has gone.
CLIENT_GONE = 499


def create_app(engine: Engine, api_key: str | None = None) -> ASGIApp:
    """The application. With a key, everything but /health wants it as a bearer token."""
    app = FastAPI(title="Afterturn engine", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(EngineError, _engine_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(Exception, _unexpected)
    _add_generation(app, engine)
    _add_adapters(app, engine)
    _add_tokens(app, engine)
    _add_status(app, engine)
    return app if api_key is None else KeyRequired(app, api_key)


class KeyRequired:
    """Plain ASGI, so that it does not stand between a handler and the client's disconnect."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._expected = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/health":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def require_json(request: Request) -> None:
    """Other media types are what a foreign web page could send without asking."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Malformed("Unsupported Media Type: Only 'application/json' is allowed")


_JSON = [Depends(require_json)]


def _add_generation(app: FastAPI, engine: Engine) -> None:
    @app.post("/v1/chat/completions", dependencies=_JSON)
    async def create_chat(asked: ChatRequest, request: Request) -> Response:
        accepted = await chat.accept(engine, asked)
        if asked.stream:
            return EventStream(chat_stream.stream(accepted), accepted.generation.cancel)
        answer = await while_connected(request, chat.answer(accepted), accepted.generation.cancel)
        return _json(answer.model_dump_json() if answer is not None else None)

    @app.post("/v1/completions", dependencies=_JSON)
    async def create_completion(asked: CompletionRequest, request: Request) -> Response:
        accepted = await completions.accept(engine, asked)
        if asked.stream:
            return EventStream(completions.stream(accepted), accepted.generation.cancel)
        answer = await while_connected(request, completions.answer(accepted), accepted.generation.cancel)
        return _json(answer.model_dump_json() if answer is not None else None)


def _json(body: str | None) -> Response:
    if body is None:
        return Response(status_code=CLIENT_GONE)
    return Response(body, media_type="application/json")


def _add_adapters(app: FastAPI, engine: Engine) -> None:
    @app.post("/v1/load_lora_adapter", dependencies=_JSON)
    async def load(asked: LoadAdapterRequest) -> Response:
        if asked.load_inplace:
            raise InvalidRequest(
                "adapters are immutable here: load the new one under a new name", "load_inplace"
            )
        await asyncio.to_thread(engine.adapters.load, asked.lora_name, asked.lora_path)
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter", dependencies=_JSON)
    async def unload(asked: UnloadAdapterRequest) -> Response:
        engine.adapters.unload(asked.lora_name)
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")

    @app.get("/v1/models")
    async def models() -> ModelList:
        base = _card(engine.base_name, engine.model.path, None, engine.model.max_length)
        return ModelList(
            data=[base, *(_card(a.name, a.path, engine.base_name) for a in engine.adapters.listing())]
        )


def _card(name: str, root: str, parent: str | None, max_model_len: int | None = None) -> ModelCard:
    now = int(time.time())
    permission = ModelPermission(id=f"modelperm-{uuid.uuid4().hex}", created=now)
    return ModelCard(
        id=name, created=now, root=root, parent=parent, max_model_len=max_model_len, permission=[permission]
    )


def _add_tokens(app: FastAPI, engine: Engine) -> None:
    @app.post("/tokenize", dependencies=_JSON)
    async def tokenize(asked: TokenizeRequest) -> TokenizeResponse:
        engine.resolve(asked.model)
        if asked.messages is not None:
            text = engine.template.render(ChatPrompt.model_validate(asked.model_dump(exclude_unset=True)))
            special = bool(asked.add_special_tokens)
        elif asked.prompt is not None:
            text, special = asked.prompt, asked.add_special_tokens is not False
        else:
            raise Malformed("either `prompt` or `messages` must be given", param="prompt")
        ids = engine.template.encode(text, special)
        names = engine.model.tokenizer.convert_ids_to_tokens(ids) if asked.return_token_strs else None
        return TokenizeResponse(
            count=len(ids), max_model_len=engine.model.max_length, tokens=ids, token_strs=names
        )

    @app.post("/detokenize", dependencies=_JSON)
    async def detokenize(asked: DetokenizeRequest) -> DetokenizeResponse:
        engine.resolve(asked.model)
        text = engine.model.tokenizer.backend_tokenizer.decode(asked.tokens, skip_special_tokens=False)
        return DetokenizeResponse(prompt=text)


def _add_status(app: FastAPI, engine: Engine) -> None:
    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if engine.scheduler.alive else 503)

    @app.get("/version")
    async def show_version() -> dict[str, str]:
        return {"version": version("afterturn-platform")}

    @app.get("/metrics")
    async def metrics() -> Response:
        """The few of vLLM's metrics that tell load and work done."""
        running, waiting = engine.scheduler.load
        lines = [
            f"vllm:num_requests_running {running}",
            f"vllm:num_requests_waiting {waiting}",
            f"vllm:generation_tokens_total {engine.scheduler.sampled_tokens}",
            f"vllm:prompt_tokens_total {engine.scheduler.prompt_tokens}",
            f"vllm:prefix_cache_hits_total {engine.scheduler.reused_tokens}",
        ]
        return PlainTextResponse("\n".join(lines) + "\n")


async def _engine_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, EngineError):
        raise error
    headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, QueueFull) else None
    return Response(error_body(error), error.status, headers, media_type="application/json")


async def _unexpected(request: Request, _error: Exception) -> Response:
    # The server logs the traceback; the client learns nothing of the inside.
    return await _engine_error(request, GenerationFailed())


async def _validation_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    problems = error.errors()[:10]
    lines = [f"  {_place(problem['loc'])}: {problem['msg']}" for problem in problems]
    count = len(error.errors())
    message = f"{count} validation error{'s' if count != 1 else ''}:\n" + "\n".join(lines)
    param = _place(problems[0]["loc"]) if problems else None
    return Response(error_body(Malformed(message, param)), 400, media_type="application/json")


def _place(location: Sequence[int | str]) -> str:
    """`body.messages.0.role`: a validation error's place without pydantic's names for types."""
    inner = {"str", "int", "float", "bool", "ContentPart", "NamedTool"}
    parts = [str(part) for part in location]
    return ".".join(part for part in parts if part not in inner and not any(c in part for c in "[](){}"))
