"""Answers the requests of a server itself, or passes them to the client whose call they belong to.

`rpc.py` finds the calls that may be meant; `calls/suspended_call.py` asks the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from protocol import jsonrpc, names
from workspace_server.call_context import CALL_ENDED, CallContext
from workspace_server.results import clean_text
from workspace_server.sources.mcp.session.messages import Request
from workspace_server.tool import RpcError

MAX_REPLIES: Final = 64
"""Requests of the server that are being answered at once, beside those that clients were asked; further ones
get no answer."""
MAX_ASKED: Final = 64
"""ServerRequests of the server that wait for clients at once."""
MAX_QUESTION: Final = 4 * 1024 * 1024
"""Bytes of one such question: it is kept for as long as a person takes."""
_FOR_CLIENTS: Final = frozenset({names.ELICIT, names.SAMPLE, names.ROOTS_LIST})
_SEVERAL: Final = RpcError(
    jsonrpc.INTERNAL_ERROR,
    "several clients use this server at this moment, and nothing says which of them is asked;"
    ' with sharing = "session" or "call" in the server\'s entry, each has a process of its own',
)
_TOO_MANY: Final = RpcError(jsonrpc.INTERNAL_ERROR, f"{MAX_ASKED} questions of this server wait for answers")
_TOO_LARGE: Final = RpcError(jsonrpc.INVALID_PARAMS, f"no client is asked more than {MAX_QUESTION >> 20} MiB")


class ServerRequests:
    """The requests of one server that are being answered.

    Attributes:
        roots_sent: whether it got the workspace's root.
    """

    def __init__(self, root: str, send: Callable[[bytes], Awaitable[None]], source: str) -> None:
        """Make it.

        Args:
            root: absolute path of the workspace, the root of whoever has none of its own.
            send: sends one message; raises nothing.
            source: id of the source, for names of tasks.
        """
        self.roots_sent = False
        self._root = Path(root)
        self._send = send
        self._source = source
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._asking = 0

    def take(self, asked: Request, concerned: Sequence[CallContext]) -> bool:
        """Answer a request, before long; False where there are too many.

        Args:
            asked: the request.
            concerned: the calls that it may be about, the likeliest first.
        """
        if len(self._tasks) - self._asking >= MAX_REPLIES or asked.id in self._tasks:
            return False
        task = asyncio.create_task(self._answer(asked, concerned), name=f"answer-{self._source}")
        self._tasks[asked.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(asked.id, None))
        return True

    def cancelled(self, params: msgspec.Raw) -> None:
        """The server does not want the answer any more (`notifications/cancelled`)."""
        identity = jsonrpc.bytes_of(jsonrpc.members_of(params).get("requestId", msgspec.Raw()))
        task = self._tasks.get(identity)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Answer nothing more."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, asked: Request, concerned: Sequence[CallContext]) -> None:
        outcome = await self._outcome(asked, concerned)
        if isinstance(outcome, RpcError):
            await self._send(jsonrpc.error(asked.id, outcome.code, outcome.message, outcome.data))
        else:
            await self._send(jsonrpc.result(asked.id, outcome))

    async def _outcome(self, asked: Request, concerned: Sequence[CallContext]) -> msgspec.Raw | RpcError:
        if asked.method == names.PING:
            return msgspec.Raw(b"{}")
        has_roots = are_one_clients(concerned) and "roots" in concerned[0].capabilities
        if asked.method == names.ROOTS_LIST and not has_roots:
            self.roots_sent = True
            root = {"uri": self._root.as_uri(), "name": self._root.name or "/"}
            return jsonrpc.raw({"roots": [root]})
        if asked.method not in _FOR_CLIENTS or not concerned:
            text = f"{clean_text(asked.method[:100])} is not offered"
            return RpcError(jsonrpc.METHOD_NOT_FOUND, text)
        if not are_one_clients(concerned):
            return _SEVERAL
        if len(jsonrpc.bytes_of(asked.params)) > MAX_QUESTION:
            return _TOO_LARGE
        if self._asking >= MAX_ASKED:
            return _TOO_MANY
        self._asking += 1
        try:
            for call in concerned:
                outcome = await call.ask(asked.method, asked.params)
                if outcome is not CALL_ENDED:  # else it was about another one
                    return outcome
            return CALL_ENDED
        finally:
            self._asking -= 1


def are_one_clients(calls: Sequence[CallContext]) -> bool:
    """Whether there are calls, and all come from one client; of two without a session nobody knows that."""
    callers = {call.caller for call in calls}
    return len(calls) == 1 or (len(callers) == 1 and "" not in callers)
