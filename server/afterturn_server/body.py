"""Reading a request's body: bounded, JSON, an object."""

import zlib
from pathlib import Path
from typing import TypeVar

import anyio
import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from afterturn_core.errors import BodyTooLarge, RequestError

from .answers import Json, invalid

M = TypeVar("M", bound=BaseModel)

_SURELY_FLAT = 200  # brackets in a body that cannot be nested too deeply, whatever they are
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class UnknownEncoding(RequestError):
    """A body packed in a way that is not read here."""

    status = 415
    code = "unsupported_encoding"


async def read_bytes(request: Request, limit: int) -> bytes:
    """The whole body, unpacked if it was sent packed.

    Raises:
        BodyTooLarge: more than `limit` bytes, known from the header, found while reading or while unpacking.
        RequestError: the client left before it was all here, or it is packed in a way unknown here.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(f"The request body is larger than {limit} bytes.")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"The request body is larger than {limit} bytes.")
            chunks.append(chunk)
    except ClientDisconnect:
        raise RequestError("The client left before the body was complete.") from None
    encoding = request.headers.get("content-encoding")
    return b"".join(chunks) if encoding is None else unpack(b"".join(chunks), encoding, limit)


def unpack(packed: bytes, encoding: str, limit: int) -> bytes:
    """A body as it was before the client packed it, never more than `limit` bytes of it.

    Raises:
        BodyTooLarge: it is larger.
        UnknownEncoding, RequestError: it is packed in a way unknown here, or not whole.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return packed
    if name not in _WINDOWS:
        raise UnknownEncoding(f"Content-Encoding: gzip, deflate or none, not {name[:32]!r}.")
    unpacker = zlib.decompressobj(_WINDOWS[name])
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        raise RequestError(f"The request body is not {name}.", code="invalid_encoding") from None
    if len(body) > limit:
        raise BodyTooLarge(f"The request body is larger than {limit} bytes.")
    if not unpacker.eof:
        raise RequestError("The packed request body is not whole.", code="invalid_encoding")
    return body


async def save_bytes(request: Request, file: Path, limit: int) -> None:
    """Write the body into a new file as it comes; what is refused leaves a part of it there.

    Raises:
        BodyTooLarge, RequestError: as `read_bytes` does.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(f"The request body is larger than {limit} bytes.")
    size = 0
    async with await anyio.open_file(file, "xb") as target:
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise BodyTooLarge(f"The request body is larger than {limit} bytes.")
                await target.write(chunk)
        except ClientDisconnect:
            raise RequestError("The client left before the body was complete.") from None


async def read_object(request: Request, limit: int) -> Json:
    """The body as a JSON object.

    Raises:
        RequestError: not JSON (NaN and Infinity are not), or not an object.
    """
    raw = await read_bytes(request, limit)
    try:
        value = orjson.loads(raw)
        if raw.count(b"[") + raw.count(b"{") > _SURELY_FLAT:
            orjson.dumps(value)  # what can be read can be nested too deeply to be stored or sent on
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The request body is not valid JSON: {error}", code="invalid_json") from None
    except orjson.JSONEncodeError:
        raise RequestError("The request body is nested too deeply.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise RequestError("The request body must be a JSON object.", code="invalid_json")
    return value


def parse(model: type[M], value: Json) -> M:
    """`value` as `model`.

    Raises:
        RequestError: with the path of the first field that is wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
