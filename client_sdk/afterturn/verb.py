"""A verb is written once, as a pure function; here it becomes a blocking method and an awaited one."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args

from afterturn.context import Context
from afterturn.retry import attempts, parse_json
from afterturn.wire import JSON, Exchange, Flow

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Verb(Protocol[T_co]):
    """Something that can be done: it knows its course."""

    def flow(self, context: Context) -> Flow[T_co]: ...


@dataclass(frozen=True)
class Call(Generic[T]):
    """A verb that is one request. `read` turns the reply's JSON into the result."""

    method: str
    path: str
    read: Callable[[JSON], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: JSON = None
    admin: bool = False
    archive: bytes | None = field(default=None, repr=False)

    @property
    def safe(self) -> bool:
        """Whether doing it twice is doing it once."""
        return self.method == "GET"

    def exchange(self, context: Context) -> Exchange:
        """The request. Raises `MissingKey`."""
        key = context.key(admin=self.admin)
        return Exchange(self.method, self.path, self.params, self.body, key, self.archive)

    def flow(self, context: Context) -> Flow[T]:
        response = yield from attempts(self.exchange(context), context, safe=self.safe)
        return self.read(parse_json(response))


class Blocking(Protocol):
    """Drives a verb with blocking I/O."""

    context: Context

    def run(self, flow: Flow[T]) -> T: ...


class Awaiting(Protocol):
    """Drives a verb with awaited I/O."""

    context: Context

    async def run(self, flow: Flow[T]) -> T: ...


@dataclass(frozen=True)
class Namespace:
    """A group of blocking verbs."""

    _driver: Blocking = field(repr=False)


@dataclass(frozen=True)
class AsyncNamespace:
    """A group of awaited verbs."""

    _driver: Awaiting = field(repr=False)


def blocking(build: Callable[P, Verb[T]]) -> Callable[Concatenate[Namespace, P], T]:
    """The verb `build` describes, as a method of a `Namespace`."""

    def method(self: Namespace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._driver.run(build(*args, **kwargs).flow(self._driver.context))

    as_method(method, build)
    return method


def awaited(build: Callable[P, Verb[T]]) -> Callable[Concatenate[AsyncNamespace, P], Coroutine[Any, Any, T]]:
    """The verb `build` describes, as a coroutine method of an `AsyncNamespace`."""

    async def method(self: AsyncNamespace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._driver.run(build(*args, **kwargs).flow(self._driver.context))

    as_method(method, build)
    return method


def as_method(method: Callable[..., object], build: Callable[..., object]) -> None:
    """Give `help()` the name, text and signature of `build`, with `self` in front and the verb's result."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *signature.parameters.values()],
        return_annotation=_result(signature.return_annotation),
    )


def _result(verb: object) -> object:
    """What the verb a function returns will itself result in: `Round` for `Call[Round]`."""
    if arguments := get_args(verb):
        return arguments[0]
    flow = inspect.signature(verb.flow).return_annotation  # type: ignore[attr-defined]
    return get_args(flow)[-1]
