"""Listings, page by page."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Concatenate, Generic, ParamSpec, TypeVar

from afterturn.decoding import as_object, decode
from afterturn.errors import MalformedReply
from afterturn.verb import AsyncNamespace, Awaiting, Blocking, Call, Namespace, as_method
from afterturn.wire import JSON

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing; `next` is the cursor of the page after it, or None."""

    data: tuple[T, ...]
    next: str | None


def page_of(record: type[T]) -> Callable[[JSON], Page[T]]:
    """Reads a page of `record`s. Raises `MalformedReply`."""

    def read(value: JSON) -> Page[T]:
        page = as_object(value)
        data, cursor = page.get("data"), page.get("next")
        if not isinstance(data, list):
            raise MalformedReply("a listing without data")
        if cursor is not None and not isinstance(cursor, str | int):
            raise MalformedReply("a listing whose cursor is neither text nor a number")
        return Page(tuple(decode(record, item) for item in data), None if cursor is None else str(cursor))

    return read


def following(call: Call[Page[T]], page: Page[T], seen: set[str]) -> Call[Page[T]] | None:
    """The call for the page after `page`. Raises `MalformedReply` if the cursors run in a circle."""
    if page.next is None:
        return None
    if page.next in seen:
        raise MalformedReply(f"the listing's cursor {page.next!r} came twice")
    seen.add(page.next)
    return replace(call, params={**call.params, "after": page.next})


class Listing(Generic[T]):
    """All items of a listing: iterate, and pages are fetched as they are needed."""

    def __init__(self, driver: Blocking, call: Call[Page[T]]) -> None:
        self._driver = driver
        self._call = call

    def pages(self) -> Iterator[Page[T]]:
        """The listing page by page."""
        call: Call[Page[T]] | None = self._call
        seen: set[str] = set()
        while call is not None:
            page = self._driver.run(call.flow(self._driver.context))
            yield page
            call = following(call, page, seen)

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data

    def all(self) -> list[T]:
        """Every item, at once."""
        return list(self)


class AsyncListing(Generic[T]):
    """All items of a listing: iterate with `async for`, and pages are fetched as they are needed."""

    def __init__(self, driver: Awaiting, call: Call[Page[T]]) -> None:
        self._driver = driver
        self._call = call

    async def pages(self) -> AsyncIterator[Page[T]]:
        """The listing page by page."""
        call: Call[Page[T]] | None = self._call
        seen: set[str] = set()
        while call is not None:
            page = await self._driver.run(call.flow(self._driver.context))
            yield page
            call = following(call, page, seen)

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.data:
                yield item

    async def all(self) -> list[T]:
        """Every item, at once."""
        return [item async for item in self]


def listing(build: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[Namespace, P], Listing[T]]:
    """The listing `build` describes, as a method of a `Namespace`."""

    def method(self: Namespace, /, *args: P.args, **kwargs: P.kwargs) -> Listing[T]:
        return Listing(self._driver, build(*args, **kwargs))

    as_method(method, build)
    return method


def async_listing(
    build: Callable[P, Call[Page[T]]],
) -> Callable[Concatenate[AsyncNamespace, P], AsyncListing[T]]:
    """The listing `build` describes, as a method of an `AsyncNamespace`; iterate it with `async for`."""

    def method(self: AsyncNamespace, /, *args: P.args, **kwargs: P.kwargs) -> AsyncListing[T]:
        return AsyncListing(self._driver, build(*args, **kwargs))

    as_method(method, build)
    return method
