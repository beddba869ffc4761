"""A fake engine: vLLM's HTTP dialect over a script, with no model behind it.

For tests of whatever talks to an engine, in one process
(`create_app(Script(...))` under uvicorn) or as its own
(`python -m afterturn_engine.scripted --port 8000 --script FILE.json`). A
`Script` is tried rule by rule; the first `Reply` that fits the last message
is played, without one the engine repeats what it was told:

    Script(replies=(
        Reply(when="sky", reasoning="Hm.", tool_calls=(ToolCall(name="look", arguments='{"up": 1}'),)),
        Reply(when="split", pieces=("al", "pha be", "ta"), others=("the second choice",)),
        Reply(when="busy", failure=Failure(kind="status", status=503, retry_after_s=2), times=1),
        Reply(when="cut", content="abcdef", failure=Failure(kind="cut", after_pieces=2)),
        Reply(when="silent", failure=Failure(kind="hang")),
        Reply(when="slow", prefill_ms=3000, piece_ms=100),
    ))

- Words, thoughts and arguments come in the `pieces` given, or a token (some three characters) a chunk.
- Tool calls become text where the request offers no tools or `tool_choice` is `none`; with
  `parallel_tool_calls: false` the first one is made. Grammars are the script's business: nothing is enforced.
- `max_tokens`, `stop`, `n`, `logprobs`, `return_token_ids`, `include_reasoning` and `stream_options` work as
  in vLLM. Usage is the number of ids; ids and log-probabilities depend on text and model alone.
- A prompt longer than `Script.context_length` is refused as vLLM refuses it.
- `create_app(...).state.engine` (a `ScriptedEngine`) keeps every request it received, the tokens it handed
  over and the adapters it holds; as a process it shows them at `GET /scripted/state`, takes another script by
  `PUT /scripted/script`, and forgets its adapters, as after a restart, by `POST /scripted/forget_adapters`.
"""

from afterturn_engine.scripted.app import create_app
from afterturn_engine.scripted.engine import Received, ScriptedEngine
from afterturn_engine.scripted.script import Failure, Reply, Script, ToolCall

__all__ = ["Failure", "Received", "Reply", "Script", "ScriptedEngine", "ToolCall", "create_app"]
