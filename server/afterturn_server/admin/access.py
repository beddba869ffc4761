"""Who may use the admin API, and what a state change must look like."""

from typing import Annotated, cast

from fastapi import Depends, Request

from afterturn_core.errors import PermissionDenied, RequestError

from ..gateway import Gateway

# What no form on another site can send without asking first.
JSON, ZIP = "application/json", "application/zip"


class UnsupportedMediaType(RequestError):
    """A state change whose body is declared as what a form on another site can send."""

    status = 415
    code = "unsupported_media_type"


async def admitted(request: Request) -> Gateway:
    """The gateway, for a request with an admin key and no sign of another site behind it.

    Raises:
        AuthenticationError, PermissionDenied: no key, or not an admin's.
        UnsupportedMediaType: a body that is declared as neither JSON nor an archive.
    """
    gateway = cast("Gateway", request.app.state.gateway)
    await gateway.caller(request, "admin")
    if request.method not in ("GET", "HEAD"):
        _check_origin(request)
        has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
        if has_body and media_type(request) not in (JSON, ZIP):
            raise UnsupportedMediaType(f"Send 'Content-Type: {JSON}'.")
    return gateway


def media_type(request: Request) -> str:
    """What the body is declared as, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise PermissionDenied("Requests from other sites change nothing here.")


Admitted = Annotated[Gateway, Depends(admitted)]
