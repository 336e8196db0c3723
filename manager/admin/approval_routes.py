"""Routes of the control socket for `lmtb approvals`: the calls that wait for a person, and their answers.

What workspace servers started may neither answer nor read them: a model could otherwise approve its own calls
and see the arguments of others.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from host.own_children import is_own_child_peer
from manager.admin.approvals import answer
from manager.admin.request_body import read_body
from manager.admin.services import Services
from manager.approvals.board import ApprovalBoard
from manager.http import lazy_aiohttp as web
from manager.routing.request_heads.admission import AdmissionRefusal

MAX_BODY = 16 * 1024
BODY_S = 10.0
NOT_FROM_CHILDREN = "programs that a workspace server started may not act for you: use a terminal of yours"


def approval_routes(board: ApprovalBoard, services: Services) -> list[web.RouteDef]:
    """The routes."""

    async def listed(request: web.Request) -> web.Response:
        if await is_from_own_child(request):
            return _json(403, {"ok": False, "reason": "forbidden", "message": NOT_FROM_CHILDREN})
        rows = [one.as_json(with_question=True) for one in board.waiting()]
        return _json(200, {"ok": True, "approvals": rows, "ended": board.ended()})

    async def answered(request: web.Request) -> web.Response:
        if await is_from_own_child(request):
            return _json(403, {"ok": False, "reason": "forbidden", "message": NOT_FROM_CHILDREN})
        message = await _message(request)
        if isinstance(message, web.Response):
            return message
        identity, approve = message.get("id"), message.get("approve")
        if not isinstance(identity, str) or not isinstance(approve, bool):
            return _json(400, {"ok": False, "reason": "invalid_answer"})
        result = await answer(board, services, identity, approve=approve, where="in a terminal")
        call = None if result.call is None else result.call.as_json(with_question=False)
        return _json(
            200,
            {
                "ok": True,
                "counts": result.ok,
                "outcome": result.outcome,
                "message": result.text,
                "approval": call,
            },
        )

    return [web.get("/approvals", listed), web.post("/approvals/answer", answered)]


async def is_from_own_child(request: web.Request) -> bool:
    """Whether a request came from a process that a workspace server started."""
    sock = None if request.transport is None else request.transport.get_extra_info("socket")
    return sock is None or await asyncio.to_thread(is_own_child_peer, sock)


async def _message(request: web.Request) -> dict[str, Any] | web.Response:
    body = await read_body(request, MAX_BODY, BODY_S)
    if isinstance(body, AdmissionRefusal):
        return _json(body.status, {"ok": False, "reason": body.reason})
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else _json(400, {"ok": False, "reason": "invalid_json"})


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=status)
