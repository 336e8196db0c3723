"""Reads bodies of requests to the control socket, within a size and a time, and makes its responses.

Bodies hold `ok: true`, or `ok: false` and a `reason`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lm_tools_bridge.http_server.refusal import BODY_TIMEOUT, AdmissionRefusal, body_too_large
from lm_tools_bridge.http_server.request_parser import BROKEN
from lm_tools_bridge.machine.own_child_connections import is_own_child_connection
from lm_tools_bridge.protocol.internal.registration import InvalidPayload
from manager.http import lazy_aiohttp as web


async def read_body(request: web.Request, cap: int, deadline: float) -> bytes | AdmissionRefusal:
    """The whole body, or 413 as soon as it exceeds `cap` bytes, 408 after `deadline` seconds, 400 for broken
    chunks. Never keeps more than the cap and one read.
    """
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(deadline):
            while chunk := await request.content.readany():
                size += len(chunk)
                if size > cap:
                    return body_too_large(cap)
                chunks.append(chunk)
    except TimeoutError:
        return BODY_TIMEOUT
    except web.RequestPayloadError:
        return BROKEN
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


# Registrations and forms are some KiB; the bound limits what a broken program can make the manager hold.
MAX_BODY: Final = 1024 * 1024
BODY_S: Final = 30.0
"""Deadline for a complete body."""
_BODY_PROBLEMS: Final = {400: "invalid_json", 408: "body_too_late", 413: "body_too_large"}
_NOT_FROM_CHILDREN: Final = (
    "programs that a workspace server or an agent started may not act for you: use a terminal of yours"
)


def refusal(status: int, reason: str, **members: object) -> web.Response:
    """A failure of the control plane: `{"ok": false, "reason": …}` and further members."""
    return _response(status, {"ok": False, "reason": reason, **members})


def method_not_allowed(allowed: Iterable[str]) -> web.Response:
    """The response 405, with the allowed methods."""
    response = refusal(405, "method_not_allowed")
    response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def success(**members: object) -> web.Response:
    """The response 200 with these members: `{"ok": true, …}`."""
    return _response(200, {"ok": True, **members})


def invalid(message: InvalidPayload) -> web.Response:
    """The response 400, with the member of the body that is wrong."""
    return refusal(400, message.reason, field=message.field, problem=message.problem)


def _response(status: int, body: Mapping[str, object]) -> web.Response:
    # ASCII escapes carry lone surrogates, too: paths may hold bytes that are not UTF-8
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


async def read_object(request: web.Request) -> dict[str, Any] | web.Response:
    """The body as a JSON object, or the refusal. `MAX_BODY` applies, not the application's limit."""
    body = await read_body(request, MAX_BODY, BODY_S)
    if isinstance(body, AdmissionRefusal):
        return refusal(body.status, _BODY_PROBLEMS[body.status])
    try:
        payload = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else refusal(400, "invalid_json")


async def refuse_own_child(request: web.Request) -> web.Response | None:
    """The refusal of a request of a program that a workspace server started; None for others.

    A model could otherwise decide through such a program what only its user decides.
    """
    if not await is_own_child_connection(request.transport):
        return None
    return refusal(403, "forbidden", message=_NOT_FROM_CHILDREN, text=_NOT_FROM_CHILDREN)  # for the page
