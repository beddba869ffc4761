"""python -m afterturn_engine --model PATH --adapter-root DIR: serve a model on loopback."""

import argparse
import errno
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from afterturn_engine.errors import StartFailed
from afterturn_engine.weights import WeightsUnavailable, resolve_model

EXIT_CANNOT_START = 2
KEY_VARIABLE = "AFTERTURN_ENGINE_API_KEY"


@dataclass(frozen=True)
class Settings:
    model: str
    host: str
    port: int
    adapter_root: Path
    max_sequences: int
    max_model_len: int | None
    max_queue: int
    prefix_cache_mb: int
    threads: int
    api_key: str | None
    served_name: str
    data_dir: Path


def parse(arguments: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m afterturn_engine", description=__doc__)
    parser.add_argument("--model", required=True, help="a model folder, a hub id, or `default`")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30002)
    parser.add_argument(
        "--adapter-root", type=Path, required=True, help="adapters are loaded from below it only"
    )
    parser.add_argument("--max-sequences", type=_positive, default=8, help="replies computed side by side")
    parser.add_argument("--max-model-len", type=_positive, default=None, help="default: the model's own")
    parser.add_argument(
        "--max-queue", type=_positive, default=256, help="replies that may wait; more get a 503"
    )
    parser.add_argument(
        "--prefix-cache-mb", type=int, default=1024, help="memory for the beginnings of past conversations"
    )
    parser.add_argument("--threads", type=_positive, default=os.cpu_count() or 1)
    parser.add_argument(
        "--api-key",
        default=os.environ.get(KEY_VARIABLE) or None,
        help=f"wanted as a bearer token everywhere but /health; default: {KEY_VARIABLE}",
    )
    parser.add_argument("--served-name", default="base", help="the name of the model without an adapter")
    parser.add_argument(
        "--data-dir", type=Path, default=Path("data"), help="where `default` keeps its weights"
    )
    return Settings(**vars(parser.parse_args(arguments)))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        if settings.api_key is None and not _is_loopback(settings.host):
            raise StartFailed(
                f"--host {settings.host} is reached from other machines, which could then load adapters: "
                f"give --api-key or set {KEY_VARIABLE}"
            )
        # Taken before the slow work, so that a port in use is told at once.
        with _bind(settings.host, settings.port) as listener:
            serve(settings, listener)
    except (StartFailed, WeightsUnavailable) as error:
        sys.stderr.write(f"afterturn engine: {error}\n")
        return EXIT_CANNOT_START
    return 0


def serve(settings: Settings, listener: socket.socket) -> None:
    """Load the model and answer until told to stop."""
    # Threads that spin while they wait for each other starve when something else wants the cores, a trainer
    # say: a step then takes ten times as long. Read by OpenMP when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Imported here: --help and a wrong port need no torch.
    import torch
    import uvicorn

    from afterturn_engine.adapters import Adapters
    from afterturn_engine.engine import Engine
    from afterturn_engine.grammar import Grammars
    from afterturn_engine.model import load_model
    from afterturn_engine.scheduler import Limits, Scheduler
    from afterturn_engine.server import create_app
    from afterturn_engine.template import Template

    torch.set_num_threads(settings.threads)
    path = resolve_model(settings.model, settings.data_dir, logging.getLogger(__name__).info)
    model = load_model(path, settings.max_model_len)
    settings.adapter_root.mkdir(parents=True, exist_ok=True)
    adapters = Adapters(settings.adapter_root, settings.served_name, model.targets, model.device, model.dtype)
    limits = Limits(settings.max_sequences, settings.max_queue, settings.prefix_cache_mb << 20)
    scheduler = Scheduler(model, limits)
    grammars = Grammars(model.tokenizer, model.vocabulary_size, model.eos_token_ids)
    template = Template(model.tokenizer)
    engine = Engine(settings.served_name, model, template, adapters, scheduler, grammars)
    scheduler.start()
    try:
        config = uvicorn.Config(
            create_app(engine, settings.api_key),
            log_level="warning",
            timeout_graceful_shutdown=5,
            # Longer than clients pool idle connections: one closed under a new request looks like a failure.
            timeout_keep_alive=120,
        )
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        scheduler.close()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"port {port} on {host} is already in use") from error
        raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


if __name__ == "__main__":
    sys.exit(main())
