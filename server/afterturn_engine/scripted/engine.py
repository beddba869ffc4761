"""The state behind the scripted engine: adapters, what was asked, what was generated."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from afterturn_engine.scripted.errors import Broken, EngineError, InvalidInput, NotFound
from afterturn_engine.scripted.generation import Generation, Piece
from afterturn_engine.scripted.script import Reply, Script
from afterturn_engine.scripted.wire import Json


@dataclass(frozen=True)
class Received:
    """One request as it came in; header names are lower case."""

    path: str
    headers: Mapping[str, str]
    body: Json


class CutError(Exception):
    """The script drops the connection here."""


@dataclass
class ScriptedEngine:
    """Counts are for tests: `generated_tokens` grows as tokens are handed over, `running` is work in hand.

    `loads` lists the names of all adapters ever loaded, in order.
    """

    script: Script
    adapters: dict[str, str] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    generated_tokens: int = 0
    running: int = 0
    used: Counter[int] = field(default_factory=Counter)

    def load(self, name: str, path: str) -> None:
        """Register an adapter under a new name.

        Raises InvalidInput for a name in use, NotFound for a folder without an
        adapter, EngineError for one that cannot be read (vLLM answers 500 there).
        """
        if not name or not path:
            raise InvalidInput("Both 'lora_name' and 'lora_path' must be provided.")
        if name in self.adapters:
            raise InvalidInput(f"The lora adapter '{name}' has already been loaded.")
        if name == self.script.served_name:
            raise InvalidInput(f"The lora adapter '{name}' conflicts with a served base model.")
        if self.script.adapters_on_disk:
            config = Path(path) / "adapter_config.json"
            if not config.is_file():
                raise NotFound(f"Loading lora {name} failed: No adapter found for {path}")
            try:
                json.loads(config.read_text())
            except ValueError as error:
                raise EngineError(f"Loading lora {name} failed: {error}") from error
        self.adapters[name] = path
        self.loads.append(name)

    def unload(self, name: str) -> None:
        """Forget an adapter; raises NotFound if it is not loaded."""
        if name not in self.adapters:
            raise NotFound(f"The lora adapter '{name}' cannot be found.")
        del self.adapters[name]

    def forget_adapters(self) -> None:
        """What a restart of the engine does: every adapter has to be loaded again."""
        self.adapters.clear()

    def replace_script(self, script: Script) -> None:
        """Answer by `script` from now on, its rules unused."""
        self.script = script
        self.used.clear()

    def require_model(self, name: str | None) -> str:
        """The served name or adapter asked for; raises NotFound for any other."""
        model = name or self.script.served_name
        if model != self.script.served_name and model not in self.adapters:
            raise NotFound(
                f"The model `{model}` does not exist. Valid aliases: {self.script.served_name}.", "model"
            )
        return model

    def choose(self, told: str, model: str) -> Reply:
        """The first rule that fits and is not used up; with none, an echo. Raises Broken if it says so."""
        for index, reply in enumerate(self.script.replies):
            fits = (reply.when is None or reply.when in told) and reply.model in (None, model)
            if fits and (reply.times is None or self.used[index] < reply.times):
                self.used[index] += 1
                return self._unless_refused(reply)
        return Reply()

    def _unless_refused(self, reply: Reply) -> Reply:
        failure = reply.failure
        if failure is not None and failure.kind == "status":
            raise Broken(failure.message, failure.status, failure.retry_after_s)
        return reply

    async def play(
        self, reply: Reply, generations: tuple[Generation, ...]
    ) -> AsyncGenerator[tuple[int, Piece], None]:
        """(choice, piece) in the order and pace of the script. Raises CutError or Broken where it says so.

        Closing the iterator stops the count at once, as an aborted request does.
        """
        failure = reply.failure
        prefill_ms = self.script.prefill_ms if reply.prefill_ms is None else reply.prefill_ms
        piece_ms = self.script.piece_ms if reply.piece_ms is None else reply.piece_ms
        self.running += 1
        try:
            await asyncio.sleep(prefill_ms / 1000)
            for step in range(max((len(g.pieces) for g in generations), default=0) + 1):
                if failure is not None and failure.after_pieces == step:
                    await _fail(failure.kind, failure.message, failure.retry_after_s)
                await asyncio.sleep(piece_ms / 1000)
                for choice, generation in enumerate(generations):
                    if step < len(generation.pieces):
                        self.generated_tokens += len(generation.pieces[step].tokens)
                        yield choice, generation.pieces[step]
        finally:
            self.running -= 1

    async def drain(self, reply: Reply, generations: tuple[Generation, ...]) -> None:
        """Everything `play` does, for a request that waits for the whole; raises the same."""
        async with aclosing(self.play(reply, generations)) as pieces:
            async for _ in pieces:
                pass


async def _fail(kind: str, message: str, retry_after_s: int | None) -> None:
    if kind == "hang":
        await asyncio.Event().wait()
    if kind == "cut":
        raise CutError(message)
    raise Broken(message, 500, retry_after_s)
