"""Ends the waits of calls when the manager stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from lm_tools_bridge.approvals.board import ApprovalBoard
from manager.admin.control.services import Services

END_AGAIN_S: Final = 0.1
"""Seconds after which a manager that stops looks for further calls that wait."""


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
