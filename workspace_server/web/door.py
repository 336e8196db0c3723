"""Who may come in: the checks that every request passes before any handler sees it.

One middleware for all routes. What a JSON-RPC body says is judged later, in `protocol.inbound`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from protocol import headers, jsonrpc, names

MAX_BODY: Final = 16 * 1024 * 1024
_BROWSERS_SEND: Final = ("Origin", "Referer", "Sec-Fetch-Site")


def refusal(status: int, message: str, extra: Mapping[str, str] | None = None) -> web.Response:
    """A refusal before any message was read: HTTP status and a JSON-RPC error without an id."""
    body = jsonrpc.error(None, jsonrpc.INVALID_REQUEST, message)
    return web.Response(status=status, body=body, content_type="application/json", headers=extra)


def make_middleware(secret: str) -> Middleware:
    """The door of one instance, which only opens for this secret (health excepted)."""
    expected = secret.encode()

    @web.middleware
    async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = _stranger(request) or _unauthorized(request, expected) or _unreadable(request)
        if refused is not None:
            return refused
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as wrong:
            allow = ", ".join(sorted(wrong.allowed_methods))
            return refusal(405, f"{request.method} is not allowed here; use {allow}", {"Allow": allow})
        except web.HTTPRequestEntityTooLarge:
            return refusal(413, f"the body is larger than {MAX_BODY} bytes")
        except web.HTTPException as problem:
            return refusal(
                problem.status, "there is nothing here" if problem.status == 404 else problem.reason
            )

    return door


def _stranger(request: web.Request) -> web.Response | None:
    """A browser, or a name that was made to point at this machine (row M22)."""
    transport = request.transport
    address = transport.get_extra_info("sockname") if transport is not None else None
    if address is None or request.headers.getall("Host", []) != [f"127.0.0.1:{address[1]}"]:
        return refusal(403, "the Host header must be the address of this server")
    if any(name in request.headers for name in _BROWSERS_SEND):
        return refusal(403, "requests of web pages are not served")
    return None


def _unauthorized(request: web.Request, expected: bytes) -> web.Response | None:
    if request.path == names.HEALTH_PATH:
        return None
    sent = request.headers.getall(headers.SECRET, [])
    if len(sent) != 1 or not hmac.compare_digest(sent[0].encode("utf-8", "surrogateescape"), expected):
        return refusal(401, "this server works for its manager only")
    return None


def _unreadable(request: web.Request) -> web.Response | None:
    if request.method != "POST":
        return None
    if request.content_type != "application/json" or "Content-Encoding" in request.headers:
        return refusal(415, "send the body as application/json, not compressed")
    return None
