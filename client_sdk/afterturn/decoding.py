"""Records from JSON, by their type hints."""

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import datetime

from afterturn.errors import MalformedReply
from afterturn.wire import JSON, JSONObject

R = typing.TypeVar("R")


def decode(record: type[R], value: JSON) -> R:
    """`value` as the dataclass `record`.

    Unknown members are ignored, missing ones take the field's default. Raises `MalformedReply` with the path
    of the first member that is missing or of another type.
    """
    return typing.cast(R, _convert(record, value, record.__name__))


def decoder(record: type[R]) -> Callable[[JSON], R]:
    """A function that decodes `record`."""
    return lambda value: decode(record, value)


def as_object(value: JSON) -> JSONObject:
    """`value`, which must be an object."""
    if not isinstance(value, dict):
        raise MalformedReply(f"expected an object, got {type(value).__name__}")
    return value


def nothing(value: JSON) -> None:
    """The reply of a verb that only confirms."""


def _convert(hint: object, value: JSON, path: str) -> object:
    if hint == JSON:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        (only,) = [argument for argument in arguments if argument is not types.NoneType]
        return _convert(only, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _mismatch(path, "a list", value)
        return tuple(_convert(arguments[0], item, f"{path}[{at}]") for at, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _mismatch(path, "an object", value)
        return {name: _convert(arguments[1], item, f"{path}.{name}") for name, item in value.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _record(hint, value, path)
    return _scalar(hint, value, path)


def _record(record: type, value: JSON, path: str) -> object:
    if not isinstance(value, dict):
        raise _mismatch(path, "an object", value)
    members: dict[str, object] = {}
    for field in dataclasses.fields(record):
        if field.name in value:
            members[field.name] = _convert(field.type, value[field.name], f"{path}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise MalformedReply(f"{path}.{field.name} is missing in the server's reply")
    return record(**members)


def _scalar(hint: object, value: JSON, path: str) -> object:
    if hint is datetime and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError as error:
            raise _mismatch(path, "a time", value) from error
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    raise _mismatch(path, getattr(hint, "__name__", str(hint)), value)


def _mismatch(path: str, expected: str, value: JSON) -> MalformedReply:
    return MalformedReply(f"{path}: expected {expected}, got {type(value).__name__}")
