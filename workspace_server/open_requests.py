"""Holds the input requests of one call that wait for the client's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.tool import RpcError

Answer = msgspec.Raw | RpcError


def input_request(method: str, params: msgspec.Raw) -> msgspec.Raw:
    """The entry of `inputRequests` for a request; `params` is empty when absent."""
    members = {"method": method, "params": params} if jsonrpc.bytes_of(params) else {"method": method}
    return jsonrpc.raw(members)


class OpenRequests:
    """Open input requests, by keys that are never reused (`q1`, `q2` …).

    Args:
        changed: called after a request was opened or answered.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._numbers = count(1)
        self._open: dict[str, tuple[msgspec.Raw, asyncio.Future[Answer]]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def by_key(self) -> Mapping[str, msgspec.Raw]:
        """The open requests, as `inputRequests`."""
        return {key: request for key, (request, _) in self._open.items()}

    async def ask(self, request: msgspec.Raw) -> Answer:
        """Open a request and wait for its answer. Cancelling this withdraws the request."""
        key = f"q{next(self._numbers)}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = request, answer
        self._changed()
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    def take(self, answers: Mapping[str, Answer]) -> None:
        """Pass on a client's answers. Unknown keys and results that are no objects are ignored."""
        for key, answer in answers.items():
            is_valid = isinstance(answer, RpcError) or jsonrpc.bytes_of(answer)[:1] == b"{"
            if is_valid and key in self._open:
                _set(self._open.pop(key)[1], answer)
                self._changed()

    def end(self, error: RpcError) -> None:
        """Answer all open requests with this error."""
        ended, self._open = self._open, {}
        for _, answer in ended.values():
            _set(answer, error)


def _set(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():  # the source may withdraw its request at this moment
        future.set_result(answer)
