"""Answers the requests of a server itself, or passes them to the client whose call they belong to.

`connection.py` finds the calls that may be meant; `calls/suspended_calls.py` asks the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.call_context import CALL_ENDED, CallContext
from workspace_server.results import clean_text
from workspace_server.sources.mcp.rpc.messages import Request
from workspace_server.tool import RpcError

MAX_REPLIES: Final = 64
"""Requests of a server that are answered at the same time, besides those that wait for clients. Further ones
get no answer."""
MAX_ASKED: Final = 64
"""Requests of a server that may wait for clients at the same time."""
MAX_QUESTION: Final = 4 * 1024 * 1024
"""Size limit in bytes of a request that waits for a client, which keeps it in memory."""
_FOR_CLIENTS: Final = frozenset({names.ELICIT, names.SAMPLE, names.ROOTS_LIST})
_SEVERAL: Final = RpcError(
    jsonrpc.INTERNAL_ERROR,
    "several clients use this server at this moment, and nothing says which of them is asked;"
    ' with sharing = "session" or "call" in the server\'s entry, each has a process of its own',
)
_TOO_MANY: Final = RpcError(jsonrpc.INTERNAL_ERROR, f"{MAX_ASKED} questions of this server wait for answers")
_TOO_LARGE: Final = RpcError(
    jsonrpc.INVALID_PARAMS, f"no client is asked for more than {MAX_QUESTION >> 20} MiB"
)


class ServerRequests:
    """Answers the requests of one server.

    Attributes:
        roots_sent: whether the server got the workspace's root.
    """

    def __init__(self, root: str, send: Callable[[bytes], Awaitable[None]], source: str) -> None:
        """Make it.

        Args:
            root: absolute path of the workspace, the root for clients without roots.
            send: sends one message; raises nothing.
            source: id of the source, for names of tasks.
        """
        self.roots_sent = False
        self._root = Path(root)
        self._send = send
        self._source = source
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._waiting_for_clients = 0

    def handle(self, request: Request, candidates: Sequence[CallContext]) -> bool:
        """Begin to answer a request; False if too many are being answered.

        Args:
            request: the request.
            candidates: the calls it may belong to, the likeliest first.
        """
        if len(self._tasks) - self._waiting_for_clients >= MAX_REPLIES or request.id in self._tasks:
            return False
        task = asyncio.create_task(self._answer(request, candidates), name=f"answer-{self._source}")
        self._tasks[request.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.id, None))
        return True

    def cancelled(self, params: msgspec.Raw) -> None:
        """Stop answering a request (`notifications/cancelled`)."""
        identity = jsonrpc.bytes_of(jsonrpc.members_of(params).get("requestId", msgspec.Raw()))
        task = self._tasks.get(identity)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop answering."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: Request, candidates: Sequence[CallContext]) -> None:
        outcome = await self._outcome(request, candidates)
        if isinstance(outcome, RpcError):
            await self._send(jsonrpc.error(request.id, outcome.code, outcome.message, outcome.data))
        else:
            await self._send(jsonrpc.result(request.id, outcome))

    async def _outcome(self, request: Request, candidates: Sequence[CallContext]) -> msgspec.Raw | RpcError:
        if request.method == names.PING:
            return msgspec.Raw(b"{}")
        has_roots = are_of_one_client(candidates) and "roots" in candidates[0].capabilities
        if request.method == names.ROOTS_LIST and not has_roots:
            self.roots_sent = True
            root = {"uri": self._root.as_uri(), "name": self._root.name or "/"}
            return jsonrpc.raw({"roots": [root]})
        if request.method not in _FOR_CLIENTS or not candidates:
            text = f"{clean_text(request.method[:100])} is not offered"
            return RpcError(jsonrpc.METHOD_NOT_FOUND, text)
        if not are_of_one_client(candidates):
            return _SEVERAL
        if len(jsonrpc.bytes_of(request.params)) > MAX_QUESTION:
            return _TOO_LARGE
        if self._waiting_for_clients >= MAX_ASKED:
            return _TOO_MANY
        self._waiting_for_clients += 1
        try:
            for call in candidates:
                outcome = await call.ask(request.method, request.params)
                if outcome is not CALL_ENDED:  # else it belongs to another one
                    return outcome
            return CALL_ENDED
        finally:
            self._waiting_for_clients -= 1


def are_of_one_client(calls: Sequence[CallContext]) -> bool:
    """Whether there are calls, all from one client. Calls without a session may have different clients."""
    callers = {call.caller for call in calls}
    return len(calls) == 1 or (len(callers) == 1 and "" not in callers)
