"""A session as a `with` block: calls made through it belong together."""

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from afterturn.context import Context
from afterturn.errors import MissingExtra, NotFound
from afterturn.sessions import end
from afterturn.verb import Awaiting, Blocking

if TYPE_CHECKING:
    import openai

HEADER = "X-Session-Id"
MAX_ID = 256
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


def session_id(name: str) -> str:
    """The id that stands for `name` in a header: what is not printable ASCII is percent-encoded.

    Raises `ValueError` if nothing is left, or more than 256 characters.
    """
    encoded = quote(name.strip(), safe=PRINTABLE)
    if not 0 < len(encoded) <= MAX_ID:
        raise ValueError(
            f"a session's name has 1 to {MAX_ID} characters once encoded, this one {len(encoded)}"
        )
    return encoded


class Session:
    """Calls through `openai` carry this session's id; leaving the block ends the session.

    `id` is what the server knows it by. Other OpenAI-compatible clients join it by sending `headers`.
    """

    def __init__(self, driver: Blocking, name: str, *, end_on_exit: bool = True) -> None:
        self.name = name
        self.id = session_id(name)
        self.headers = {HEADER: self.id}
        self._driver = driver
        self._end_on_exit = end_on_exit

    @cached_property
    def openai(self) -> "openai.OpenAI":
        """A stock `openai.OpenAI` for this server and session. Raises `MissingExtra`, `MissingKey`."""
        context = self._driver.context
        try:
            import openai
        except ModuleNotFoundError as error:
            raise _missing() from error
        return openai.OpenAI(
            base_url=openai_url(context), api_key=context.key(admin=False), default_headers=self.headers
        )

    def end(self) -> None:
        """Say that the conversation is over. A session in which nothing was said is no error."""
        try:
            self._driver.run(end(self.id).flow(self._driver.context))
        except NotFound:
            return

    def close(self) -> None:
        """Let go of the connections; the session stays open on the server."""
        if "openai" in self.__dict__:
            self.openai.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self._end_on_exit and (error is None or isinstance(error, Exception)):
            self.end()

    def __repr__(self) -> str:
        return f"Session({self.name!r})"


class AsyncSession:
    """As `Session`, with a stock `openai.AsyncOpenAI` and an `async with` block."""

    def __init__(self, driver: Awaiting, name: str, *, end_on_exit: bool = True) -> None:
        self.name = name
        self.id = session_id(name)
        self.headers = {HEADER: self.id}
        self._driver = driver
        self._end_on_exit = end_on_exit

    @cached_property
    def openai(self) -> "openai.AsyncOpenAI":
        """A stock `openai.AsyncOpenAI` for this server and session. Raises `MissingExtra`, `MissingKey`."""
        context = self._driver.context
        try:
            import openai
        except ModuleNotFoundError as error:
            raise _missing() from error
        return openai.AsyncOpenAI(
            base_url=openai_url(context), api_key=context.key(admin=False), default_headers=self.headers
        )

    async def end(self) -> None:
        """Say that the conversation is over. A session in which nothing was said is no error."""
        try:
            await self._driver.run(end(self.id).flow(self._driver.context))
        except NotFound:
            return

    async def close(self) -> None:
        """Let go of the connections; the session stays open on the server."""
        if "openai" in self.__dict__:
            await self.openai.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if self._end_on_exit and (error is None or isinstance(error, Exception)):
            await self.end()

    def __repr__(self) -> str:
        return f"AsyncSession({self.name!r})"


def openai_url(context: Context) -> str:
    """Where OpenAI-compatible clients should point."""
    return f"{context.base_url}/v1"


def _missing() -> MissingExtra:
    return MissingExtra('session.openai needs the openai package: pip install "afterturn[openai]"')
