"""Routes of the control socket for calls that wait for a person: what waits, and answers.

For `lmtb approvals`, and for managers on other hosts, whose people use projects here.
`manager/admin/control/decisions.py` keeps what workspace servers started from answering and reading:
a model could otherwise approve its own calls and see the arguments of others.
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.stream import ApprovalStream
from manager.admin.control.control_messages import read_object, refusal, success
from manager.http import lazy_aiohttp as web

_ANSWERS: Final = {"yes": True, "no": False}


def add_approval_routes(app: web.Application, board: ApprovalBoard) -> None:
    """Add the routes to the control socket's application."""
    stream = ApprovalStream(board)
    app.on_shutdown.append(stream.close)
    app.add_routes(
        [
            *_routes(board),
            web.get("/approvals/changes", stream.serve),
        ]
    )


def _routes(board: ApprovalBoard) -> list[web.RouteDef]:
    async def listed(request: web.Request) -> web.Response:
        return success(approvals=board.questions(), ended=board.ended())

    async def answered(request: web.Request) -> web.Response:
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        identity, approve = message.get("id"), message.get("approve")
        if not isinstance(identity, str) or not isinstance(approve, bool):
            return refusal(400, "invalid_answer")
        result = await board.answer(identity, approve=approve, where="in a terminal")
        return success(counts=result.ok, outcome=result.outcome, message=result.text, approval=result.call)

    async def answered_elsewhere(request: web.Request) -> web.Response:
        """An answer that a person gave to the manager on another host, as a workspace server gets it."""
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        identity, _, word = str(message.get("source")).rpartition(".")
        found = board.find(identity)
        if word not in _ANSWERS or (found is not None and found.host is not None):
            return refusal(400, "invalid_answer")
        result = await board.answer(identity, approve=_ANSWERS[word], where="on another host")
        return success(outcome=result.outcome)

    return [
        web.get("/approvals", listed),
        web.post("/approvals/answer", answered),
        web.post("/answer_approval", answered_elsewhere),
    ]
