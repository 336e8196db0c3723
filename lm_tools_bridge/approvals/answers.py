"""Takes the answers of a person to calls that wait for approval, from the page and from `lmtb approvals`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from lm_tools_bridge.approvals.board import UNKNOWN_END, ApprovalBoard
from lm_tools_bridge.approvals.waiting_call import WaitingCall
from lm_tools_bridge.protocol.errors import Refusal
from manager.admin.control.services import Services
from manager.status_reading.responses import json_object

END_AGAIN_S: Final = 0.1
"""Seconds after which a manager that stops looks for further calls that wait."""


class AnswerResult(NamedTuple):
    """What became of an answer: whether it counts, a word for programs, and a sentence for the person."""

    ok: bool
    outcome: str
    text: str
    call: WaitingCall | None = None


async def answer(
    board: ApprovalBoard, services: Services, identity: str, *, approve: bool, where: str
) -> AnswerResult:
    """Answer a call that waits; the first answer counts.

    Args:
        where: where the person answered, such as "on the page".
    """
    found = board.find(identity)
    if found is None:
        return AnswerResult(False, "gone", f"Nothing was changed: {_how_ended(board, identity)}.")
    identity = found.call.id
    subject = f"{found.reported.id}.{'yes' if approve else 'no'}"
    said = await services.ask_server(found.root, "answer_approval", subject)
    if isinstance(said, Refusal):
        if said.delivered == "unknown":
            text = f"It is unknown whether this answer counts: {said.message}."
            return AnswerResult(False, "unknown", text)
        return AnswerResult(False, "gone", f"Nothing was changed: {said.message}.")
    outcome = str((json_object(said) or {}).get("outcome"))
    if outcome not in {"approved", "denied"}:
        return AnswerResult(False, "gone", f"Nothing was changed: {_how_ended(board, identity)}.")
    board.note_answer(identity, f"{outcome} {where}", approved=approve)
    return AnswerResult(True, outcome, _effect(found, approve=approve), found)


async def end_waiting(
    board: ApprovalBoard, services: Services, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """End the waits of all calls without an answer, because the manager stops: none of them runs.

    Calls that begin to wait meanwhile end, too. Those on other hosts end with their callers, and others there
    go on. Runs until it is cancelled: at the end of the manager.
    """
    while True:
        asked = [
            services.ask_server(one.root, "answer_approval", f"{one.call.id}.end")
            for one in board.waiting()
            if one.host is None
        ]
        await asyncio.gather(*asked, return_exceptions=True)  # a server that is gone holds up no other
        await sleep(END_AGAIN_S)


def _effect(found: WaitingCall, *, approve: bool) -> str:
    tool = found.call.tool if found.host is None else f"{found.call.tool} on {found.host}"
    if not approve:
        return f"{tool} was denied."
    if found.call.waits:
        return f"{tool} was approved, once."
    return f"{tool} was approved, once; it runs when its client sends the call again."


def _how_ended(board: ApprovalBoard, identity: str) -> str:
    return board.how_ended(identity) or UNKNOWN_END
