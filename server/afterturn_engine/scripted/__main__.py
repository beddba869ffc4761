"""`python -m afterturn_engine.scripted`: the scripted engine as a process."""

import argparse
from pathlib import Path

import uvicorn

from afterturn_engine.scripted.app import create_app
from afterturn_engine.scripted.script import Script


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m afterturn_engine.scripted", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--script", type=Path, help="a Script as JSON; without one the engine echoes")
    parser.add_argument("--delay-ms", type=float, help="time between pieces, instead of the script's")
    asked = parser.parse_args()
    script = Script() if asked.script is None else Script.model_validate_json(asked.script.read_text())
    if asked.delay_ms is not None:
        script = script.model_copy(update={"piece_ms": asked.delay_ms})
    uvicorn.run(create_app(script), host=asked.host, port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
