"""`python -m afterturn_dashboard`: the admin dashboard as a process of its own."""

import argparse
import sys
from collections.abc import Sequence

import uvicorn

from afterturn_core.errors import SettingsError
from afterturn_core.settings import Settings, load_settings
from afterturn_dashboard.admission import LOOPBACK_NAMES
from afterturn_dashboard.app import create_app


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted. 2 for settings or arguments that cannot work."""
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    options = _parser(settings).parse_args(arguments)
    hosts = LOOPBACK_NAMES | {name.lower() for name in options.allow_host}
    hosts |= {options.host.lower()}
    uvicorn.run(
        create_app(options.gateway.rstrip("/"), hosts),
        host=options.host,
        port=options.port,
        log_level=settings.log_level if settings.log_level != "info" else "warning",
        server_header=False,
        ws="wsproto",  # comes with NiceGUI; `auto` would take whatever else is installed
        timeout_graceful_shutdown=3,
    )
    return 0


def _parser(settings: Settings) -> argparse.ArgumentParser:
    reach = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host
    parser = argparse.ArgumentParser(prog="python -m afterturn_dashboard", description=__doc__)
    parser.add_argument("--host", default=settings.host)
    parser.add_argument("--port", type=int, default=settings.dashboard_port)
    parser.add_argument(
        "--gateway",
        default=f"http://{reach}:{settings.port}",
        help="root of the gateway (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which browsers may ask for the dashboard (may be repeated)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
