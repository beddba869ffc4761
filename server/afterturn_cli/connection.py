"""The client that every command about a running install uses."""

import os

from dotenv import dotenv_values

from afterturn import Afterturn
from afterturn_core.settings import Settings, load_settings

from .services import reachable


def connect() -> Afterturn:
    """A client with keys from the environment, else from `keys.env` in the data folder.

    The server is AFTERTURN_BASE_URL, else the one of the settings' host and port.
    """
    settings = load_settings()
    keys = dotenv_values(settings.keys_file) if settings.keys_file.is_file() else {}
    return Afterturn(
        os.environ.get("AFTERTURN_BASE_URL") or f"http://{reachable(settings.host)}:{settings.port}",
        os.environ.get("AFTERTURN_API_KEY") or keys.get("AFTERTURN_API_KEY"),
        settings.admin_key.get_secret_value() or keys.get("AFTERTURN_ADMIN_KEY"),
    )


def advice(settings: Settings) -> str:
    """Where keys come from, for messages about a missing or wrong one."""
    return f"Keys are read from AFTERTURN_API_KEY and AFTERTURN_ADMIN_KEY, else from {settings.keys_file}."
