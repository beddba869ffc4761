"""TCP ports on this machine: free ones, and whether one can be listened on."""

import socket

from afterturn_core.errors import SettingsError


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on right now, all different."""
    sockets = [socket.socket(_family(host)) for _ in range(count)]
    try:
        for each in sockets:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def require_free(host: str, port: int, variable: str) -> None:
    """Make sure that a server can listen there.

    Raises:
        SettingsError: it cannot; the message names the setting to change.
    """
    with socket.socket(_family(host)) as probe:
        # As servers do, so that connections of the last run in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError(
                f"{variable}: cannot listen on {host}:{port} ({error.strerror}). "
                f"Stop what listens there, or set {variable} to another port."
            ) from None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
