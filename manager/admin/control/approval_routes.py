"""Routes of the control socket for `lmtb approvals`: the calls that wait for a person, and their answers.

What workspace servers started may neither answer nor read them: a model could otherwise approve its own calls
and see the arguments of others.
"""

from __future__ import annotations

from manager.admin.control.approvals import answer
from manager.admin.control.control_messages import read_object, refusal, refuse_own_child, success
from manager.admin.control.services import Services
from manager.approvals.board import ApprovalBoard
from manager.http import lazy_aiohttp as web


def approval_routes(board: ApprovalBoard, services: Services) -> list[web.RouteDef]:
    """The routes."""

    async def listed(request: web.Request) -> web.Response:
        if (refused := await refuse_own_child(request)) is not None:
            return refused
        rows = [one.as_json(with_question=True) for one in board.waiting()]
        return success(approvals=rows, ended=board.ended())

    async def answered(request: web.Request) -> web.Response:
        if (refused := await refuse_own_child(request)) is not None:
            return refused
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        identity, approve = message.get("id"), message.get("approve")
        if not isinstance(identity, str) or not isinstance(approve, bool):
            return refusal(400, "invalid_answer")
        result = await answer(board, services, identity, approve=approve, where="in a terminal")
        call = None if result.call is None else result.call.as_json(with_question=False)
        return success(counts=result.ok, outcome=result.outcome, message=result.text, approval=call)

    return [web.get("/approvals", listed), web.post("/approvals/answer", answered)]
