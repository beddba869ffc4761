"""Where the server is and who is asking."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from afterturn.errors import ConfigurationError, MissingKey

if TYPE_CHECKING:
    from afterturn.outbox import Outbox

DEFAULT_BASE_URL = "http://127.0.0.1:30000"


@dataclass(frozen=True)
class Context:
    """What every verb needs to know; fixed for the life of a client."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    admin_key: str | None = field(default=None, repr=False)
    timeout: float = 30.0  # seconds without a byte
    max_retries: int = 2
    outbox: "Outbox | None" = None
    # In [0, 1): spreads the retries of many clients.
    jitter: Callable[[], float] = field(default=random.random, repr=False)

    def key(self, *, admin: bool) -> str:
        """The key for an admin verb, or for one of the agent's (an admin key may do both).

        Raises `MissingKey`.
        """
        if admin:
            if self.admin_key is None:
                raise MissingKey("this verb needs admin_key= or AFTERTURN_ADMIN_KEY")
            return self.admin_key
        key = self.api_key or self.admin_key
        if key is None:
            raise MissingKey("this verb needs api_key= or AFTERTURN_API_KEY")
        return key

    def mask(self, text: str) -> str:
        """`text` with any of our keys in it blotted out."""
        for key in (self.api_key, self.admin_key):
            if key:
                text = text.replace(key, "***")
        return text


def base_url_from(given: str | None) -> str:
    """The server's root: the argument, AFTERTURN_BASE_URL, or the loopback default.

    A trailing `/v1` is dropped, since that is what people copy. Raises `ConfigurationError`.
    """
    text = given or os.environ.get("AFTERTURN_BASE_URL") or DEFAULT_BASE_URL
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"base_url is not a URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigurationError("base_url must look like http://host:port")
    if url.userinfo or url.query or url.fragment:
        raise ConfigurationError("base_url takes no user, password, query or fragment")
    return str(url).rstrip("/").removesuffix("/v1")


def key_from(given: str | None, variable: str) -> str | None:
    """A key: the argument or the environment variable.

    Raises `ConfigurationError`, without showing it, if it cannot be a header.
    """
    key = given or os.environ.get(variable) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError(f"the key given as argument or {variable} holds characters that no key has")
    return key


def state_dir() -> Path:
    """Where this user's programs keep state (XDG_STATE_HOME, by default ~/.local/state)."""
    configured = os.environ.get("XDG_STATE_HOME")
    return Path(configured) if configured else Path.home() / ".local" / "state"
