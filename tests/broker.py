"""An embedded broker for the length of a `with` block."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afterturn_cli.embedded_broker import answers, broker_url
from afterturn_cli.ports import free_ports

PATIENCE_S = 120.0


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Start a broker with its data under `folder`; gives its URL."""
    (port,) = free_ports(1)
    url = broker_url(folder, port)
    command = [
        sys.executable,
        "-m",
        "afterturn_cli.embedded_broker",
        "--port",
        str(port),
        "--folder",
        str(folder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(url):
            assert process.poll() is None, "the broker ended"
            assert time.monotonic() < deadline, "the broker does not answer"
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()
