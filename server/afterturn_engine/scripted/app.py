"""The scripted engine's HTTP face: vLLM's routes over a script instead of a model."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from afterturn_engine.scripted import dialect
from afterturn_engine.scripted.chat import answer_chat
from afterturn_engine.scripted.completions import answer_completion
from afterturn_engine.scripted.engine import ScriptedEngine
from afterturn_engine.scripted.errors import Broken, EngineError
from afterturn_engine.scripted.exchange import read, refusal
from afterturn_engine.scripted.prompt import chat_prompt
from afterturn_engine.scripted.script import Script
from afterturn_engine.scripted.wire import ChatRequest, LoadAdapter, UnloadAdapter


def create_app(script: Script | None = None) -> FastAPI:
    """An engine that answers as `script` says; its state is `app.state.engine` (a ScriptedEngine)."""
    app = FastAPI(openapi_url=None)
    engine = ScriptedEngine(script or Script())
    app.state.engine = engine
    _add_refusals(app)
    _add_dialect(app, engine)
    _add_tokens(app, engine)
    _add_remote_control(app, engine)
    return app


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(EngineError)
    async def refuse(request: Request, error: EngineError) -> Response:
        return refusal(error)

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        return refusal(Broken(error.detail, error.status_code, None))


def _add_dialect(app: FastAPI, engine: ScriptedEngine) -> None:
    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": "scripted"}

    @app.get("/v1/models")
    async def models() -> JSONResponse:
        base = engine.script.served_name
        cards = [dialect.model_card(base, base, None, engine.script.context_length)]
        cards += [dialect.model_card(name, path, base, None) for name, path in engine.adapters.items()]
        return JSONResponse({"object": "list", "data": cards})

    @app.post("/v1/load_lora_adapter")
    async def load(request: Request) -> Response:
        asked = await read(engine, request, LoadAdapter)
        engine.load(asked.lora_name, asked.lora_path)
        return Response(f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter")
    async def unload(request: Request) -> Response:
        asked = await read(engine, request, UnloadAdapter)
        engine.unload(asked.lora_name)
        return Response(f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await answer_chat(engine, request)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await answer_completion(engine, request)


def _add_tokens(app: FastAPI, engine: ScriptedEngine) -> None:
    @app.post("/tokenize")
    async def tokenize(request: Request) -> JSONResponse:
        asked = await read(engine, request, ChatRequest)
        engine.require_model(asked.model)
        ids = chat_prompt(asked.messages)
        return JSONResponse(
            {"count": len(ids), "max_model_len": engine.script.context_length, "tokens": list(ids)}
        )


def _add_remote_control(app: FastAPI, engine: ScriptedEngine) -> None:
    """For tests that run the engine as a process and cannot reach `app.state`."""

    @app.put("/scripted/script")
    async def replace_script(request: Request) -> Response:
        engine.replace_script(Script.model_validate_json(await request.body()))
        return Response()

    @app.post("/scripted/forget_adapters")
    async def forget_adapters() -> Response:
        engine.forget_adapters()
        return Response()

    @app.get("/scripted/state")
    async def state() -> JSONResponse:
        received = [{"path": r.path, "headers": dict(r.headers), "body": r.body} for r in engine.received]
        return JSONResponse(
            {
                "generated_tokens": engine.generated_tokens,
                "running": engine.running,
                "adapters": engine.adapters,
                "loads": engine.loads,
                "requests": received,
            }
        )
