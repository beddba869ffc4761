"""What crosses the wire: plain values, no I/O."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, Union
from urllib.parse import quote

# A Union and not `|`: the recursion needs a name in quotes, and `decoding` looks at the object at run time.
JSON: TypeAlias = Union[bool, int, float, str, list["JSON"], dict[str, "JSON"], None]  # noqa: UP007
JSONObject: TypeAlias = dict[str, JSON]

T = TypeVar("T")


@dataclass(frozen=True)
class Exchange:
    """One HTTP request to be made. `path` is already quoted and starts with a slash; `archive` is a zip file
    that is sent in place of a JSON body."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: JSON = None
    key: str = field(default="", repr=False)
    archive: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Pause:
    """A wait, in seconds."""

    seconds: float


@dataclass(frozen=True)
class Response:
    """What came back: status, lower-case headers, the whole body."""

    status: int
    headers: Mapping[str, str]
    content: bytes


Step: TypeAlias = Exchange | Pause

# A verb's course: it yields steps, is sent their responses (None for a pause), and returns the verb's result.
# Written once; `transport` drives it with blocking or with awaited I/O. A connection that fails is thrown in
# as `ConnectionFailed`.
Flow: TypeAlias = Generator[Step, Response | None, T]


def exchange(step: Exchange) -> Flow[Response]:
    """One step of a flow, with its response."""
    response = yield step
    if response is None:
        raise RuntimeError("the driver answered an exchange with nothing")
    return response


def segment(name: str) -> str:
    """`name` as one segment of a path.

    Raises `ValueError` for what would name another path ("", ".", "..").
    """
    if name in {"", ".", ".."}:
        raise ValueError(f"not an id: {name!r}")
    return quote(name, safe="@")


def query(**values: str | int | None) -> dict[str, str]:
    """Query parameters without those that are None."""
    return {name: str(value) for name, value in values.items() if value is not None}
