"""What browsers are told a page may do."""

import re
import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with it browsers send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def content_security_policy(nonce: str) -> str:
    """The policy of one page.

    Scripts: our own files, and the inline ones that carry this reply's nonce, so markup that slipped into a
    page (a handler attribute, a script, a javascript: link) does not run. What NiceGUI needs beyond that:
    `unsafe-eval`, because Vue compiles templates in the browser and NiceGUI builds handlers with `Function`;
    inline styles, because Vue, Quasar and ECharts set them. Nothing is loaded from another machine.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )


def with_nonce(page: bytes, nonce: str) -> bytes:
    """`page` with the nonce on each script tag.

    NiceGUI escapes `<` in everything it puts into a page, so each `<script` in it is the template's own.
    """
    return re.sub(rb"<script(?=[\s>])", f'<script nonce="{nonce}"'.encode(), page)


class Policy:
    """ASGI middleware: the headers on every reply; on pages the policy, its nonce, and no caching."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        held: Message | None = None
        page = bytearray()

        async def guarded_send(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["content-security-policy"] = content_security_policy(nonce)
                if not headers.get("content-type", "").startswith("text/html"):
                    await send(message)
                    return
                headers["cache-control"] = "no-store"
                held = message
            elif held is None:
                await send(message)
            else:
                page.extend(message.get("body", b""))
                if not message.get("more_body"):
                    body = with_nonce(bytes(page), nonce)
                    MutableHeaders(scope=held)["content-length"] = str(len(body))
                    await send(held)
                    await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, guarded_send)
