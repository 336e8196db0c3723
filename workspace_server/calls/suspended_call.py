"""One call that can outlive its request, because its source may ask the client for input.

The client answers with its next request. Each request runs the call until it has an outcome or open input
requests (MCP 2026-07-28, Multi Round-Trip Requests). `suspended_calls.py` finds the call of a request.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import inbound, input_requests, jsonrpc, names
from workspace_server.call_context import CALL_ENDED, CallContext, refuse_request
from workspace_server.open_requests import OpenRequests, input_request
from workspace_server.tool import CallOutcome, RpcError

GATHER_S: Final = 0.01
"""How long the first open input request waits for others, so that the client gets them together."""
MAX_QUEUED: Final = 64
"""Notifications kept between two requests of the client; the oldest are dropped."""
MAX_QUEUED_BYTES: Final = 64 * 1024
"""Size of one notification that is kept; larger ones are dropped."""

_CANCELLED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about was cancelled")

Work = Callable[[CallContext], Awaitable[CallOutcome]]


class SuspendedCall:
    """A running call, in a task of its own.

    Attributes:
        state: the `requestState` with which the client resumes it; empty while a request is being served.
        failure: the error that its caller gets instead of the outcome.
    """

    def __init__(self, context: CallContext, work: Work) -> None:
        self.state = ""
        self.failure: RpcError | None = None
        self._context = context
        self._is_served = False
        self._queued: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=MAX_QUEUED)
        self._open = OpenRequests(self._wake)
        self._wakeup: asyncio.Future[None] | None = None
        own = replace(context, notify=self._notify, ask=self._ask, is_suspended=self._is_suspended)
        self._task = asyncio.ensure_future(work(own))
        self._task.add_done_callback(self._ended)

    @cached_property
    def id(self) -> str:
        """A random id, made only for calls that are suspended."""
        return os.urandom(16).hex()

    @property
    def is_done(self) -> bool:
        """Whether the call has ended."""
        return self._task.done()

    @property
    def was_cancelled(self) -> bool:
        """Whether the call was cancelled, so that it has no outcome."""
        return self._task.cancelled()

    def outcome(self) -> CallOutcome:
        """The outcome of a call that is done. Raises what the work raised."""
        return self._task.result()

    def input_requests(self) -> Mapping[str, msgspec.Raw]:
        """The open input requests by key, as `inputRequests`."""
        return self._open.by_key()

    async def serve(self, context: CallContext) -> None:
        """Serve one request of the client, until the call is done or has open input requests.

        If this is cancelled, or a notification cannot be sent, the call is cancelled too.
        """
        self._context = context
        answers = jsonrpc.members_of(context.params.get("inputResponses", b""))
        self._open.take({key: _answer(raw) for key, raw in answers.items()})
        try:
            while self._queued:
                await self._send(*self._queued.popleft())
            self._is_served = True
            await self._until_done_or_asking()
        except BaseException:
            await self.cancel()
            raise
        finally:
            self._is_served = False

    async def cancel(self) -> None:
        """Cancel the call; open input requests get an error. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _until_done_or_asking(self) -> None:
        while not self._task.done():
            if not self._open:
                self._wakeup = asyncio.get_running_loop().create_future()
                await self._wakeup
                continue
            await asyncio.wait([self._task], timeout=GATHER_S)
            if self._open:  # the source may have withdrawn its requests
                return

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        """As `source.Ask`. A client that leaves an answer out is asked again with its next request."""
        needed = input_requests.required_capabilities(method, params)
        if needed is None:
            return await refuse_request(method, params)
        if self._task.done():
            return self._end_error()
        if not input_requests.declares(self._context.capabilities, needed):
            return await self._undeclared(method, needed)
        return await self._open.ask(input_request(method, params))

    async def _undeclared(self, method: str, needed: Mapping[str, Any]) -> RpcError:
        """The source of a session client gets an error and continues; the call of a stateless client ends."""
        if not self._context.caller:
            data = jsonrpc.raw({"requiredCapabilities": needed})
            text = f"this call needs a client that declares {input_requests.format_capabilities(needed)}"
            self.failure = RpcError(inbound.MISSING_CAPABILITY, text, data)
            self._task.cancel()
            # the source learns of the cancellation before it gets the error, or it would finish the call
            await asyncio.wait([self._task], timeout=GATHER_S)
        return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method} is not offered by the client of this call")

    def _is_suspended(self) -> bool:
        return bool(self._open) and not self._is_served

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._is_served:
            await self._send(method, params)
        elif len(jsonrpc.dumps(params)) <= MAX_QUEUED_BYTES:
            self._queued.append((method, params))

    async def _send(self, method: str, params: Mapping[str, Any]) -> None:
        """Notify the client on its current request, with that request's progress token and log level."""
        meta = self._context.meta
        if method == names.PROGRESS:
            if (token := meta.get("progressToken")) is None:
                return
            params = {**params, "progressToken": token}
        elif method == names.MESSAGE and names.META_LOG_LEVEL not in meta:
            return
        await self._context.notify(method, params)

    def _ended(self, task: asyncio.Task[CallOutcome]) -> None:
        self._open.end(self._end_error())
        self._wake()

    def _end_error(self) -> RpcError:
        return _CANCELLED if self.was_cancelled else CALL_ENDED

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)


def _answer(raw: msgspec.Raw) -> msgspec.Raw | RpcError:
    """An entry of `inputResponses`; the manager marks errors in it (`input_requests.error_response`)."""
    error = input_requests.error_in(raw)
    return raw if error is None else RpcError(*error)
