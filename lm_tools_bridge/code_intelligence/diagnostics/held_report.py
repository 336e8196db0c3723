"""Asks for a project's diagnostics where a server holds an empty report back until something changes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.peer import Peer

WORKSPACE: Final = "workspace/diagnostic"
TOKEN: Final = "lm-tools-bridge/check/"  # noqa: S105  of a progress
HELD_S: Final = 1.0
"""A report that has items follows the end of its progress at once; after so many seconds it is held back."""


class HeldReports:
    """The requests `workspace/diagnostic` to one server, and the progress of each."""

    def __init__(self, peer: Peer, held_s: float = HELD_S) -> None:
        self._peer = peer
        self._held_s = held_s
        self._numbers = itertools.count(1)
        self._ended: dict[str, asyncio.Event] = {}

    def notified(self, params: Any) -> None:
        """Take a `$/progress`; those of others are ignored."""
        token = params.get("token") if isinstance(params, Mapping) else None
        if not isinstance(token, str) or token not in self._ended:
            return
        value = params.get("value")
        if isinstance(value, Mapping) and value.get("kind") == "end":
            self._ended[token].set()

    async def ask(self, params: Mapping[str, Any], timeout_s: float) -> Any:
        """The server's report; an empty one if it ended the check's progress and then holds the report back.

        Raises:
            RequestFailed, RequestTimedOut, ServerGone: as `Peer.request`.
        """
        token = f"{TOKEN}{next(self._numbers)}"
        ended = self._ended[token] = asyncio.Event()
        request = self._peer.request(WORKSPACE, {**params, "workDoneToken": token}, timeout_s=timeout_s)
        asking = asyncio.create_task(request, name="workspace-diagnostic")
        waiting = asyncio.create_task(ended.wait(), name="check-progress")
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=self._held_s)
            return asking.result() if asking.done() else {"items": []}
        finally:
            del self._ended[token]
            asking.cancel()  # which cancels the request at the server, too
            waiting.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)
