"""The scripted engine, playing a model that calls a shell tool once and then speaks.

What it answers follows from the request alone, so that any number of clients may talk at once: a first
message that asks for the tool gets a call of whatever shell tool is on offer, everything else a text that
no other request gets. The correction is refused once with a 503, which every client tries again.
"""

import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from afterturn_engine.scripted import Failure, Reply, Script, ScriptedEngine, ToolCall, dialect
from afterturn_engine.scripted.chat import answer_chat
from afterturn_engine.scripted.errors import EngineError
from afterturn_engine.scripted.exchange import refusal
from bench.clients.talk import MARK

Json = dict[str, Any]
CONTEXT = 1_000_000  # tokens; full agents bring twenty thousand before the user speaks
RETRY_AFTER_S = 1
SHELLS = ("exec", "bash", "Bash", "shell", "terminal", "exec_command", "shell_command", "run_command")
FINISH = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # what mini-swe-agent's shell prints when it is done

_asked: ContextVar[Json] = ContextVar("asked")


@dataclass
class Player(ScriptedEngine):
    """Chooses by the whole request instead of by its last message."""

    refused: set[str] = field(default_factory=set)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def choose(self, told: str, model: str) -> Reply:
        """The reply to the request that is being answered. Raises Broken for the one that is refused."""
        body = _asked.get()
        since = _since_the_assistant(body["messages"])
        correction = _correction(since)
        if correction is not None and correction not in self.refused:
            self.refused.add(correction)
            failure = Failure(kind="status", status=503, message="busy", retry_after_s=RETRY_AFTER_S)
            return self._unless_refused(Reply(failure=failure))
        text = f"\nReply {next(self.numbers)}: it is **done** — é中🙂  \n\n```\nx = 1\n```\n  \n"
        if "</code>" in (body.get("stop") or ()):
            return Reply(content=_program(since, text.strip()))
        tools = {
            tool["function"]["name"]: tool["function"]
            for tool in body.get("tools") or ()
            if "function" in tool
        }
        call = _call(tools, since, text)
        return Reply(content=text) if call is None else Reply(content="", tool_calls=(call,))


def create_player() -> FastAPI:
    """The engine as an application; its state is `app.state.engine`."""
    app = FastAPI(openapi_url=None)
    engine = Player(Script(context_length=CONTEXT))
    app.state.engine = engine

    @app.exception_handler(EngineError)
    async def refuse(request: Request, error: EngineError) -> Response:
        return refusal(error)

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> JSONResponse:
        base = engine.script.served_name
        return JSONResponse({"object": "list", "data": [dialect.model_card(base, base, None, CONTEXT)]})

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        _asked.set(json.loads(await request.body()))
        return await answer_chat(engine, request)

    return app


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())


def _since_the_assistant(messages: Sequence[Json]) -> list[Json]:
    since: list[Json] = []
    for message in messages:
        since = [] if message["role"] == "assistant" else [*since, message]
    return since


def _correction(since: Sequence[Json]) -> str | None:
    """The word of the conversation whose user corrects the reply just now."""
    for message in since:
        _, found, rest = text_of(message).partition("no, shorter please, ")
        if found and message["role"] == "user":
            return rest.split('"')[0].split()[0]
    return None


def _wanted(since: Sequence[Json]) -> str | None:
    """The shell command that the user asked for just now."""
    for message in since:
        _, found, rest = text_of(message).partition(f"echo {MARK}")
        if found and message["role"] == "user" and not _is_result(message):
            return f"echo {MARK}" + rest.split('"')[0].split()[0]
    return None


def _is_result(message: Json) -> bool:
    return message["role"] == "tool" or text_of(message).startswith("Observation:")


def _call(tools: Mapping[str, Json], since: Sequence[Json], text: str) -> ToolCall | None:
    """A call where the user has just asked for one, or where the client wants its end called; else None."""
    shell = next((tools[name] for name in SHELLS if name in tools), None)
    command = _wanted(since)
    if any(text_of(message).startswith("Tool call error") for message in since):
        command = f"echo {FINISH}"
    elif any(_is_result(message) for message in since):
        command = None
    if shell is not None and command is not None:
        return _made(shell["name"], _arguments(shell.get("parameters") or {}, command))
    if "final_answer" in tools:
        return _made("final_answer", json.dumps({"answer": text}))
    return None


def _made(name: str, arguments: str) -> ToolCall:
    return ToolCall(name=name, arguments=arguments, id=f"call_{uuid.uuid4().hex[:24]}")


def _program(since: Sequence[Json], text: str) -> str:
    """What a model says to an agent that runs code: the client's stop string cuts it at its end."""
    command = None if any(_is_result(message) for message in since) else _wanted(since)
    code = f"final_answer({text!r})" if command is None else f"print(shell(command={command!r}))"
    return f"Thought: I know how.\n<code>\n{code}\n</code>"


def _arguments(parameters: Json, command: str) -> str:
    """Arguments that the schema accepts, spaced oddly: who writes them anew gives himself away."""
    given: Json = {}
    for name, wanted in (parameters.get("properties") or {}).items():
        if name in ("command", "cmd"):
            given[name] = ["bash", "-lc", command] if wanted.get("type") == "array" else command
        elif name in (parameters.get("required") or ()):
            given[name] = _filler(wanted)
    return (
        "{" + " , ".join(f"{json.dumps(name)}:  {json.dumps(value)}" for name, value in given.items()) + "}"
    )


def _filler(wanted: Json) -> object:
    if "enum" in wanted:
        return wanted["enum"][0]
    empty: Mapping[str, object] = {"integer": 3, "number": 3, "boolean": False, "array": [], "object": {}}
    return empty.get(str(wanted.get("type")), "say the word")
